#!/usr/bin/env python3
"""mallectld killed with -9 in every phase, and what the next one makes of it.

With fake agents (fake_agent.py), as 0350-transaction.t.
"""
import fcntl
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from farm import Farm, check, each, hold, let_go, run, two_and_one, wait_for


def no_failure(f):
    check(f.job()["restarts"] == 0, "it counts as a failure: %s" % f.journal("lost"))


# --- in each phase -------------------------------------------------------------------

def killed_in(phase):
    with two_and_one() as f:
        hold(f, phase)
        before = f.job()
        f.crash()
        let_go(f, phase)
        f.start()
        now = f.trains(3)
        check(now["step"] >= before["step"], "step %d after %d" % (now["step"], before["step"]))
        no_failure(f)
        goes = [g["generation"] for g in f.journal("go")]
        check(goes == sorted(set(goes)), "a world was told twice to go: %s" % goes)


def held_in(phase):
    """The fault lasts beyond the restart."""
    with two_and_one() as f:
        hold(f, phase)
        f.restart()
        let_go(f, phase)
        f.trains(3)
        no_failure(f)


def node_lost_in(phase):
    with two_and_one() as f:
        hold(f, phase)
        pid = f.agent_pid("n2")
        f.crash()
        os.kill(pid, 9)
        let_go(f, phase)
        f.start()
        f.trains(3)
        for lost in f.journal("lost"):
            check(lost["by_node"], "it was the job's fault: %s" % lost)


def joiner_lost_in(phase):
    with two_and_one() as f:
        hold(f, phase)
        pid = f.agent_pid("n3")
        f.crash()
        os.kill(pid, 9)
        let_go(f, phase)
        f.start()
        f.trains(3)
        for lost in f.journal("lost"):
            check(lost["by_node"], "it was the job's fault: %s" % lost)


def pause_in(phase):
    with two_and_one() as f:
        hold(f, phase)
        f.order("job.pause", job="1")
        f.restart()
        let_go(f, phase)
        f.when("the pause", lambda j: j["state"] == "paused")
        f.all_free()
        f.order("job.resume", job="1")
        f.trains(3)
        no_failure(f)


def cancel_in(phase):
    with two_and_one() as f:
        hold(f, phase)
        f.order("job.cancel", job="1")
        f.restart()
        let_go(f, phase)
        f.ended(143)
        f.all_free()


# --- at other times ---------------------------------------------------------------------

def trains_on():
    """a job whose world trains does not notice, and its state is known again"""
    with Farm() as f:
        f.submit("3:3")
        f.trains(3)
        f.restart()
        now = f.trains(3)
        check(now["generation"] == 1, "it was started again")
        f.tell("n1", "crash", code=9)
        f.when("the loss", lambda j: j["restarts"] == 1)
        f.trains(3)
        check(f.journal("go")[-1]["step"] > 0, "states of before were not told")


def in_first_start():
    """a job whose first world comes up is started, by the old world or a new one"""
    with Farm(script={"*": {"ready_s": 1e9}}) as f:
        f.submit("3:3")
        f.phase("start", "prepare")
        f.restart()
        f.set("*", ready_s=0.01)
        f.trains(3)
        no_failure(f)


def crash_meanwhile():
    """a world that broke while there was no daemon starts again"""
    with Farm() as f:
        f.submit("3:3")
        f.trains(3)
        f.crash()
        f.tell("n1", "crash", code=9)
        f.start()
        f.when("the loss", lambda j: j["restarts"] == 1)
        f.trains(3)


def done_meanwhile():
    """a job that finished while there was no daemon has ended"""
    with Farm() as f:
        f.submit("3:3")
        step = f.trains(3)["step"]
        f.crash()
        for node in ("n1", "n2", "n3"):
            f.set(node, finish=step + 30)
        wait_for("the last step", lambda: all(
            f.heard(node, "left", kind="world") for node in ("n1", "n2", "n3")))
        f.start()
        f.ended(0)
        f.all_free()


def paused():
    """a paused job stays paused, and goes on from its state"""
    with Farm() as f:
        f.submit("3:3")
        f.trains(3)
        f.order("job.pause", job="1")
        f.when("the pause", lambda j: j["state"] == "paused")
        step = f.said("n1", "world.left")[-1]["step"]
        f.restart()
        f.all_free()
        check(f.job()["state"] == "paused", f.job()["state"])
        f.order("job.resume", job="1")
        f.trains(3)
        check(f.journal("go")[-1]["step"] == step, "it did not go on from step %d" % step)


def ended():
    """an ended job stays ended, with its code"""
    with Farm() as f:
        f.submit("3:3", finish=20, exit_code=5)
        f.ended(5)
        f.restart()
        f.ended(5)
        f.all_free()


def ended_but_not_gone():
    """nodes of an ended job are given to nobody before its last process is gone"""
    with Farm(script={"*": {"kill_s": 0.5}}) as f:
        f.submit("3:3")
        f.trains(3)
        f.submit("3:3", name="next")
        f.order("job.cancel", job="1", force=True)
        f.restart()
        f.trains(3, job="2")
        for node in ("n1", "n2", "n3"):
            gone = f.said(node, "world.exited", job="1")[0]
            check(gone["t"] <= f.heard(node, "world.start", job="2")[0]["t"],
                  "%s was given away with processes on it" % node)


def rolled_back_but_not_gone():
    """a joiner that was being ended keeps its node until it is gone"""
    with two_and_one(n3={"hello": False, "ready_s": 1e9, "kill_s": 0.5},
                     nnodes="2:3") as f:
        f.come("n3")
        f.closed("grow", "failed")
        f.submit("1:1", name="next")
        f.set("n3", ready_s=0.01)
        f.restart()
        f.trains(1, job="2")
        gone = f.said("n3", "world.exited", job="1")[0]
        taken = f.heard("n3", "world.start", job="2")
        check(not taken or gone["t"] <= taken[0]["t"], "n3 was given away")


def no_agent_left():
    """jobs of before start anew when no agent is left"""
    with Farm() as f:
        f.submit("3:3")
        f.trains(3)
        pids = [f.agent_pid(node) for node in ("n1", "n2", "n3")]
        f.crash()
        for pid in pids:
            os.kill(pid, 9)
        f.start()
        f.trains(3)
        check(f.journal("go")[-1]["step"] == 0, "a state of the dead was taken")


def spooled():
    """a state in the spool is known after a restart"""
    with Farm(2) as f:
        f.are_there("n1", "n2")
        f.submit("1:2")
        f.trains(2)
        for node in ("n1", "n2"):
            f.next_agent(node, hello=False)
            f.tell(node, "notice", grace_s=2)
        for node in ("n1", "n2"):
            wait_for("%s to go" % node, lambda: f.journal("released", node=node))
        f.restart()
        f.come("n1", "n2")
        f.trains(2)
        check(f.journal("go")[-1]["step"] == f.journal("spooled")[-1]["step"], "not from there")


def notice_meanwhile():
    """a node that is wanted back while there is no daemon is given back in time"""
    with Farm() as f:
        f.are_there("n1", "n2", "n3")
        f.submit("1:3")
        f.trains(3)
        f.crash()
        f.next_agent("n2", hello=False)
        f.tell("n2", "notice", grace_s=3)
        for late in ("n1", "n3"):  # it is told before it is known who is there
            f.tell(late, "drop", away_s=0.4)
        f.start()
        wait_for("n2 to go", lambda: f.journal("released", node="n2"))
        check(f.heard("n2", "node.release"), "n2 went without an order")
        f.trains(2)
        no_failure(f)


def wish_in(wish):
    """Asked of a daemon to which not all agents have come back yet, or none ever will."""
    for gone in (False, True):
        with Farm() as f:
            f.submit("3:3")
            f.trains(3)
            pid = f.agent_pid("n3")
            f.crash()
            for node in ("n1", "n3"):
                f.tell(node, "drop", away_s=0.3)
            if gone:
                os.kill(pid, 9)
            f.start()
            f.order("job." + wish, job="1")
            if wish == "cancel":
                f.ended(143)
            else:
                f.when("the pause", lambda j: j["state"] == "paused")
            f.all_free()


def lock_of_the_dead():
    """a child of the killed daemon that has its lock for a moment keeps nobody out"""
    with Farm() as f:
        f.submit("3:3")
        f.trains(3)
        f.crash()
        with open(f.site.path("state/journal.jsonl")) as journal:
            fcntl.flock(journal, fcntl.LOCK_EX)
            threading.Timer(0.2, lambda: fcntl.flock(journal, fcntl.LOCK_UN)).start()
            f.start()
        f.trains(3)
        no_failure(f)


def again_and_again():
    """a daemon that is killed five times in a row loses nothing"""
    with two_and_one() as f:
        f.come("n3")
        for _ in range(5):
            f.restart()
        step = f.trains(3)["step"]
        f.restart()
        check(f.trains(3)["step"] > step, "it went back")
        no_failure(f)


TESTS = [
    trains_on, in_first_start, crash_meanwhile, done_meanwhile, paused, ended,
    ended_but_not_gone, rolled_back_but_not_gone, no_agent_left, spooled, notice_meanwhile,
    lock_of_the_dead, again_and_again,
    *each(wish_in, "a %s asked for while agents are still coming back is done",
          ["pause", "cancel"]),
    *each(killed_in, "a daemon killed in %s costs a job nothing"),
    *each(held_in, "a daemon killed in %s, of a fault that lasts, costs a job nothing"),
    *each(node_lost_in, "a member lost while the daemon, killed in %s, is away is survived"),
    *each(joiner_lost_in, "a joiner lost while the daemon, killed in %s, is away is survived"),
    *each(pause_in, "a pause that was asked for in %s outlives the daemon"),
    *each(cancel_in, "a cancel that was asked for in %s outlives the daemon"),
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
