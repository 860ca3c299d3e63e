#!/usr/bin/env python3
"""What becomes of jobs and worlds: failures, ends, people's wishes, claims.

With fake agents (fake_agent.py), as 0350-transaction.t.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from farm import Farm, aside, check, each, hold, let_go, run, two_and_one, wait_for


# --- failures ---------------------------------------------------------------------

def crash():
    """a world that breaks starts again from the newest state, where that lies"""
    with Farm() as f:
        f.submit("3:3")
        f.trains(3)
        saved = wait_for("states", lambda: f.said("n2", "state.saved"))[-1]["step"]
        f.tell("n1", "crash", code=9)
        f.when("the loss", lambda j: j["restarts"] == 1)
        f.trains(3)
        go = f.heard("n1", "world.go", generation=2)[0]
        check(go["state_step"] >= saved, "%s, but step %d was saved" % (go, saved))
        lost, = f.journal("lost")
        check(not lost["by_node"] and lost["reason"].endswith("with 9"), lost)


def crash_of_the_holder():
    """when the node with the newest state is lost, the next newest is taken"""
    with Farm() as f:
        f.submit("2:3")
        f.trains(3)
        wait_for("states", lambda: f.said("n2", "state.saved"))
        f.next_agent("n1", hello=False)
        f.kill_agent("n1")
        f.when("the loss", lambda j: j["restarts"] == 1)
        f.trains(2)
        go = f.journal("go")[-1]
        check(go["step"] > 0, "it began anew: %s" % go)


def crash_loop():
    """a job that fails again and again without a step ends with its launcher's code"""
    with Farm(max_restarts=1) as f:
        f.submit("3:3", fail_code=42)
        f.trains(3)
        f.set("n1", die_step=1)
        f.ended(42)
        check(len(f.journal("lost")) == 2, f.journal("lost"))
        f.all_free()


def start_loop():
    """a job whose starts fail again and again ends with its launcher's code"""
    with Farm(max_restarts=1) as f:
        f.submit("3:3", fail_code=41)
        f.trains(3)
        f.set("n1", fail_s=0)
        f.tell("n1", "crash", code=9)
        f.ended(41)
        check(len(f.journal("world")) <= 3, "%d worlds" % len(f.journal("world")))
        f.all_free()


def progress_forgives():
    """failures with progress in between never end a job"""
    with Farm(max_restarts=1) as f:
        f.submit("3:3")
        for n in range(1, 4):
            f.trains(3)
            f.tell("n1", "crash", code=9)
            f.when("loss %d" % n, lambda j: j["restarts"] == n)
        f.trains(3)


def fails_at_start():
    """a program that fails before it was ready ends with its code and is not restarted"""
    with Farm() as f:
        f.submit("2:3", fail_s=0, fail_code=7)
        now = f.ended(7)
        check(now["generation"] == 1, "it was started %d times" % now["generation"])
        f.all_free()


def fails_at_second_start():
    """that also holds when a node was lost in the first start"""
    with Farm(script={"*": {"ready_s": 1e9}}) as f:
        f.submit("3:3", fail_code=7)
        f.phase("start", "prepare")
        f.kill_agent("n2")
        f.closed("start", "failed")
        f.set("*", fail_s=0)
        now = f.ended(7)
        check(now["generation"] == 2, "it was started %d times" % now["generation"])


def ends_by_itself():
    """a launcher that exits with 0 ends the job with 0; the other nodes may end later"""
    with Farm() as f:
        f.submit("3:3")
        f.trains(3)
        f.tell("n1", "crash", code=0)
        f.ended(0)
        check(f.nodes()["n2"]["job"] == "1", "n2 was given away with its processes")
        for node in ("n2", "n3"):
            f.tell(node, "crash", code=0, all=True)
        f.all_free()


# --- ends ----------------------------------------------------------------------------

def finishes():
    """a job that has consumed its samples ends with its launcher's code"""
    with Farm() as f:
        f.submit("3:3", finish=30, exit_code=0)
        now = f.ended(0)
        check(now["step"] == 30 and now["cursor"] == 30 * 64, now)
        f.submit("3:3", name="bad", finish=30, exit_code=5)
        f.ended(5, job="2")
        f.all_free()


def finishes_in_prepare():
    """a job that finishes while its next world comes up ends with 0"""
    with two_and_one() as f:
        hold(f, "prepare")
        f.set("*", finish=f.job()["step"] + 5)
        f.ended(0)
        f.closed("grow", "dropped")
        f.all_free()


def finishes_at_handover():
    """a job that finishes with the first step of its new world ends with 0"""
    with two_and_one() as f:
        f.set("n3", ready_s=0.2)
        f.come("n3")
        f.phase("grow", "prepare")
        f.set("*", stuck=2)
        f.phase("grow", "handover")
        f.set("*", finish=f.journal("go")[-1]["step"] + 1, stuck=0)
        f.ended(0)
        f.all_free()


def last_word_again():
    """a job whose node is taken between its last step and its last word says it again"""
    with Farm(script={"*": {"exits": False}}) as f:
        f.submit("2:3", finish=30)
        wait_for("the last step", lambda: f.said("n1", "world.left"))
        f.kill_agent("n1")
        wait_for("the end of the world", lambda: f.journal("lost") or f.journal("gone"))
        f.set("*", exits=True)
        now = f.ended(0)
        check(now["generation"] >= 2 and now["step"] == 30, now)


def finish_lost():
    """a member lost while the others have finished does not leave the job without an end"""
    with Farm() as f:
        f.submit("2:3", step_s=0.02)
        f.trains(3)
        f.set("n3", finish=10 ** 6)
        for node in ("n1", "n2"):
            f.set(node, finish=f.job()["step"] + 3, exits=False)
        wait_for("leaves", lambda: f.said("n1", "world.left") and f.said("n2", "world.left"))
        f.next_agent("n3", finish=0)
        f.kill_agent("n3")
        for node in ("n1", "n2"):
            f.set(node, exits=True)
        f.ended(0)


# --- wishes, in each phase -------------------------------------------------------------

def pause_and_resume():
    """a paused job has no nodes and keeps its state; resumed it goes on from it"""
    with Farm() as f:
        f.submit("3:3")
        f.trains(3)
        f.order("job.pause", job="1")
        f.when("the pause", lambda j: j["state"] == "paused")
        f.all_free()
        left = f.said("n1", "world.left")[-1]["step"]
        f.order("job.resume", job="1")
        now = f.trains(3)
        check(f.heard("n1", "world.go")[-1]["state_step"] == left, "it went on from elsewhere")
        check(now["restarts"] == 0, "it counts as a failure")


def pause_in(phase):
    with two_and_one() as f:
        hold(f, phase)
        f.order("job.pause", job="1")
        let_go(f, phase)
        f.when("the pause", lambda j: j["state"] == "paused")
        f.all_free()
        f.order("job.resume", job="1")
        check(f.trains(3)["restarts"] == 0, "it counts as a failure")


def pause_at_start():
    """a job paused while its first world comes up has no nodes, and starts when resumed"""
    with Farm(script={"*": {"ready_s": 1e9}}) as f:
        f.submit("3:3")
        f.phase("start", "prepare")
        f.order("job.pause", job="1")
        f.when("the pause", lambda j: j["state"] == "paused")
        f.all_free()
        f.set("*", ready_s=0.01)
        f.order("job.resume", job="1")
        f.trains(3)


def resume_in_pausing():
    """a job resumed while it is still leaving comes back"""
    with Farm(script={"*": {"exit_s": 0.2}}) as f:
        f.submit("3:3")
        f.trains(3)
        f.order("job.pause", job="1")
        f.order("job.resume", job="1")
        wait_for("the world to be gone", lambda: f.journal("gone"))
        check(f.trains(3)["restarts"] == 0, "it counts as a failure")


def cancel_in(phase):
    with two_and_one() as f:
        hold(f, phase)
        f.order("job.cancel", job="1")
        let_go(f, phase)
        f.ended(143)
        check(not f.journal("lost"), "a world was lost: %s" % f.journal("lost"))
        f.all_free()


def force_in(phase):
    with two_and_one() as f:
        hold(f, phase)
        f.order("job.cancel", job="1", force=True)
        f.ended(143, limit_s=1)
        f.all_free()


def cancel_then_lost():
    """a cancelled job whose world breaks before it has left ends as cancelled"""
    with Farm() as f:
        f.submit("3:3")
        f.trains(3)
        f.set("n2", answer="none")
        f.order("job.cancel", job="1")
        f.phase("stop", "agree")
        f.kill_agent("n2")
        f.ended(143)
        f.all_free()


def cancel_waiting():
    """a job that waits, or is paused, ends at once when cancelled"""
    with Farm() as f:
        f.submit("3:3")
        f.trains(3)
        f.submit("3:3", name="waits")
        f.order("job.cancel", job="2")
        f.ended(143, job="2")
        f.order("job.pause", job="1")
        f.when("the pause", lambda j: j["state"] == "paused")
        f.order("job.cancel", job="1")
        f.ended(143)


def slow_exit():
    """nodes of a killed world are nobody's until its last process is gone"""
    with Farm(script={"*": {"kill_s": 0.3}}) as f:
        f.submit("3:3")
        f.trains(3)
        f.submit("3:3", name="next")
        f.order("job.cancel", job="1", force=True)
        f.trains(3, job="2")
        gone, = f.journal("gone", job="1")
        began, = f.journal("world", job="2")
        check(gone["t"] <= began["t"], "the next job had them before")


# --- claims ------------------------------------------------------------------------------

def agent_exits():
    """a claim whose agent exits without a word is made again, after longer and longer waits"""
    with Farm(1, script={"n1": {"exit": 1}}) as f:
        f.submit("1:1")

        def times():
            claims = {}
            for record in f.journal("claim"):
                claims.setdefault(record["claim"], record["t"])
            return sorted(claims.values())
        wait_for("four claims", lambda: len(times()) >= 4)
        t = times()
        check(t[2] - t[1] > t[1] - t[0] and t[3] - t[2] > t[2] - t[1], t)
        f.next_agent("n1", exit=-1)
        f.trains(1)


@aside
def agent_silent():
    """a claim whose agent never says hello is given up, and made again"""
    with Farm(1, script={"n1": {"hello": False}}) as f:
        f.submit("1:1")
        wait_for("its agent", lambda: f.tell("n1", "set"))
        first = f.journal("claim")[0]["claim"]
        f.next_agent("n1", hello=True)
        f.trains(1, limit_s=45)
        check(f.journal("claim_end", claim=first), "the first claim was not ended")


TESTS = [
    crash, crash_of_the_holder, crash_loop, start_loop, progress_forgives, fails_at_start,
    fails_at_second_start, ends_by_itself, finishes, finishes_in_prepare,
    finishes_at_handover, last_word_again, finish_lost, pause_and_resume, pause_at_start,
    resume_in_pausing,
    *each(pause_in, "a job paused in %s leaves its nodes, and comes back when resumed"),
    *each(cancel_in, "a job cancelled in %s leaves at a step and ends with 143"),
    *each(force_in, "a job cancelled by force in %s ends at once, its nodes come free"),
    cancel_then_lost, cancel_waiting, slow_exit, agent_exits, agent_silent,
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
