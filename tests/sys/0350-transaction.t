#!/usr/bin/env python3
"""Every row of the transaction that moves a job from one world to the next.

The agents are fake (fake_agent.py): what they shall do wrong is scripted, and a
whole rescale takes a tenth of a second.  At its end each case looks through the
journal for what must never be (farm.py).
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from farm import Farm, aside, check, hold, let_go, run, two_and_one, wait_for


# --- the table ------------------------------------------------------------------

def start():
    """a job starts on the free nodes, without a state"""
    with Farm() as f:
        f.submit("3:3")
        f.trains(3)
        check([n["state"] for n in f.nodes().values()] == ["assigned"] * 3, "nodes not assigned")
        for node in ("n1", "n2", "n3"):
            go, = f.heard(node, "world.go")
            check("state_step" not in go, "a first world was given a state: %s" % go)
        first, = f.heard("n1", "world.start")
        check(first["world_nodes"] == ["n1", "n2", "n3"] and first["nproc"] == 2, first)


def grow():
    """a job trains on until the joiner is ready, leaves at one step, and goes on from it"""
    with two_and_one(n3={"hello": False, "ready_s": 0.3}) as f:
        before = f.job()["step"]
        f.come("n3")
        f.phase("grow", "prepare")
        f.when("steps beside the joiner", lambda j: j["step"] > before and j["transaction"])
        f.trains(3)
        done = f.closed("grow", "done")
        check(done["from"] == 2 and done["to"] == 3 and not done["forced"], done)
        check(done["prepare_s"] > 0.2, done)
        commit, = f.journal("commit")
        for node in ("n1", "n2"):
            left, = f.said(node, "world.left", generation=1)
            check(left["step"] == commit["step"], "%s left at %d" % (node, left["step"]))
        go, = f.heard("n3", "world.go")
        check(go["state_step"] == commit["step"] and go["state_node"] == "n1", go)
        check(f.job()["restarts"] == 0, "it counts as a failure")


def shrink():
    """a job gives nodes to another, which gets them when the first is clean there"""
    with Farm(script={"*": {"exit_s": 0.15}}) as f:
        f.submit()
        f.trains(3)
        f.submit("1:1", name="other")
        f.trains(1, job="2")
        f.trains(2)
        f.closed("shrink", "done")
        node = f.job("2")["nodes"][0]
        taken = f.heard(node, "world.start", job="2")[0]
        left = [e for e in f.said(node, "world.exited", job="1") if e["t"] <= taken["t"]]
        check(left, "node %s was given before it was clean" % node)


def joiner_never_ready():
    """a joiner that never gets ready is rolled back, the old world never stops"""
    with two_and_one(n3={"hello": False, "ready_s": 1e9}) as f:
        f.come("n3")
        f.closed("grow", "failed")
        now = f.trains(2)
        check(now["restarts"] == 0 and now["nodes"] == ["n1", "n2"], now)
        check(not f.said("n1", "world.left"), "the old world left")
        check(not f.heard("n1", "world.propose"), "the old world was asked to leave")
        wait_for("the joiner to be ended", lambda: f.journal("gone", generation=2))
        wait_for("the node to be free", lambda: f.nodes()["n3"]["state"] == "idle")
        f.set("n3", ready_s=0.01)
        f.trains(3)


def joiner_fails():
    """a next world whose launcher fails at once is rolled back, and tried again later"""
    with two_and_one() as f:
        f.set("n1", fail_s=0)
        f.come("n3")
        f.closed("grow", "failed")
        check(f.trains(2)["restarts"] == 0, "the old world paid for it")
        f.set("n1", fail_s=-1)
        f.trains(3)
        check(f.job()["restarts"] == 0, "it counts as a failure of the job")


def joiner_lost():
    """a joiner whose agent is killed while it comes up is rolled back"""
    with two_and_one(n3={"hello": False, "ready_s": 1e9}, prepare_limit_s=5) as f:
        f.come("n3")
        f.phase("grow", "prepare")
        f.set("n3", ready_s=0.01)
        f.kill_agent("n3")
        f.closed("grow", "failed")
        f.trains(3)
        check(not f.journal("lost", generation=1), "the old world was lost with it")


def too_late():
    """an answer that is no brings a later step, twice, then all leave at that"""
    with two_and_one() as f:
        f.set("n2", no=2)
        f.come("n3")
        f.trains(3)
        asked = [(p["proposal"], p["step"]) for p in f.heard("n2", "world.propose")]
        check([number for number, _ in asked] == [1, 2, 3], asked)
        check(asked[0][1] < asked[1][1] < asked[2][1], asked)
        left, = f.said("n1", "world.left", generation=1)
        check(left["step"] == asked[2][1], "left at %d of %s" % (left["step"], asked))


def silent():
    """an answer that does not come within a second brings a new proposal"""
    with two_and_one() as f:
        hold(f, "agree")
        wait_for("a second proposal", lambda: len(f.heard("n2", "world.propose")) > 1)
        let_go(f, "agree")
        f.trains(3)
        check(f.job()["restarts"] == 0, "it cost the world")


@aside
def never_answers():
    """an agent that never answers costs the world, and the job goes on from its newest state"""
    with two_and_one() as f:
        hold(f, "agree")
        f.when("the loss", lambda j: j["restarts"] == 1, limit_s=20)
        let_go(f, "agree")
        f.trains(3)
        check(f.heard("n1", "world.go")[-1]["state_step"] > 0, "the state was not found")


@aside
def always_late():
    """an agent that always says no is asked a bounded number of times"""
    with two_and_one() as f:
        f.set("n2", answer="no")
        f.come("n3")
        f.when("the loss", lambda j: j["restarts"] == 1, limit_s=20)
        asked = len(f.heard("n2", "world.propose"))
        check(asked <= 12, "it was asked %d times" % asked)
        f.set("n2", answer="yes")
        f.trains(3)


@aside
def never_leaves():
    """a member that never leaves at the agreed step costs the world"""
    with two_and_one() as f:
        hold(f, "commit")
        f.when("the loss", lambda j: j["restarts"] == 1, limit_s=20)
        let_go(f, "commit")
        f.trains(3)


@aside
def no_first_step():
    """a world that makes no step after go is ended, and the job starts again"""
    with two_and_one() as f:
        hold(f, "handover")
        f.when("the loss", lambda j: j["restarts"] == 1, limit_s=40)
        f.trains(3)


def old_world_lost_in_prepare():
    """when the old world breaks while the next comes up, the next takes over"""
    with two_and_one(n3={"hello": False, "ready_s": 1e9}, prepare_limit_s=5) as f:
        f.come("n3")
        f.phase("grow", "prepare")
        f.tell("n1", "crash", code=9)
        f.when("the loss", lambda j: j["restarts"] == 1)
        f.set("n3", ready_s=0.01)
        f.trains(3)
        go = f.heard("n3", "world.go")[0]
        check(go["generation"] == 2 and go["state_step"] > 0, go)


def next_lost_in_commit():
    """when the next world breaks after the old one has agreed, the job starts again"""
    with two_and_one() as f:
        hold(f, "commit")
        f.kill_agent("n3")
        let_go(f, "commit")
        f.closed("grow", "failed")
        f.trains(3)
        commit = f.journal("commit")[0]
        go = f.journal("go")[1]
        check(go["step"] == commit["step"], "it went on from %s, not from %s" % (go, commit))


def exit_after_left():
    """the code of a launcher whose world has left is no failure"""
    with two_and_one() as f:
        f.set("n1", exit_code=9)
        f.come("n3")
        f.trains(3)
        wait_for("the old world to be gone", lambda: f.journal("gone", generation=1))
        now = f.trains(3)
        check(now["restarts"] == 0 and now["generation"] == 2, now)


def exit_before_left():
    """a launcher that is heard of before the last member's leave ends no job"""
    with two_and_one() as f:
        f.set("n2", leave=False)
        f.come("n3")
        f.phase("grow", "commit")
        wait_for("the launcher's exit", lambda: f.said("n1", "world.exited"))
        check(f.job()["state"] == "running", f.job()["state"])
        f.set("n2", leave=True)
        now = f.trains(3)
        check(now["restarts"] == 0, "it counts as a failure")
        f.closed("grow", "done")


def lingers():
    """a world that left and does not go away is ended after a while, its nodes come free"""
    with Farm() as f:
        f.submit("3:3", exits=False)
        f.trains(3)
        f.order("job.pause", job="1")
        f.when("the pause", lambda j: j["state"] == "paused", limit_s=10)
        check(f.heard("n2", "world.kill"), "nobody ended it")
        f.all_free()


TESTS = [
    start, grow, shrink, joiner_never_ready, joiner_fails, joiner_lost, too_late, silent,
    old_world_lost_in_prepare, next_lost_in_commit, exit_after_left, exit_before_left,
    lingers, never_answers, always_late, never_leaves, no_first_step,
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
