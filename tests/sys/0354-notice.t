#!/usr/bin/env python3
"""Nodes that are wanted back, and connections of agents that break.

With fake agents (fake_agent.py), as 0350-transaction.t.
"""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from farm import Farm, check, each, hold, let_go, run, two_and_one, wait_for


def notice(f, node, grace_s):
    """The scheduler wants the node, and keeps it.  The time of the notice."""
    f.next_agent(node, hello=False)
    check(f.tell(node, "notice", grace_s=grace_s), "%s has no agent" % node)
    return wait_for("the notice", lambda: f.said(node, "node.notice"))[-1]["t"]


def given_back(f, node, noticed_t, grace_s):
    """The node was given back in time, by order, with nothing left."""
    wait_for("%s to be given back" % node, lambda: f.journal("released", node=node))
    check(f.heard(node, "node.release"), "%s went without an order" % node)
    took_s = f.journal("released", node=node)[-1]["t"] - noticed_t
    check(took_s < grace_s, "%s was given back after %.2f s of %g s" % (node, took_s, grace_s))


def no_loss(f):
    check(not f.journal("lost"), "a world was lost: %s" % f.journal("lost"))
    check(f.job()["restarts"] == 0, "it counts as a failure")


# --- notices ------------------------------------------------------------------------

def own_in(phase):
    with two_and_one(nnodes="1:3") as f:
        hold(f, phase)
        t = notice(f, "n2", 4)
        let_go(f, phase)
        given_back(f, "n2", t, 4)
        check(f.trains(2)["nodes"] == ["n1", "n3"], f.job()["nodes"])
        no_loss(f)


def joiner_in(phase):
    with two_and_one(nnodes="1:3") as f:
        hold(f, phase)
        t = notice(f, "n3", 4)
        let_go(f, phase)
        given_back(f, "n3", t, 4)
        check(f.trains(2)["nodes"] == ["n1", "n2"], f.job()["nodes"])
        no_loss(f)


def shrinks():
    """a job leaves a node that is wanted back, and trains on with the others"""
    with Farm() as f:
        f.are_there("n1", "n2", "n3")
        f.submit("1:3")
        f.trains(3)
        t = notice(f, "n2", 2)
        given_back(f, "n2", t, 2)
        check(f.trains(2)["nodes"] == ["n1", "n3"], f.job()["nodes"])
        done = f.closed("shrink", "done")
        check(done["forced"], done)
        check(f.job()["rescales"]["forced"] == 1, f.job()["rescales"])
        no_loss(f)


def first_rank():
    """that the node of rank 0 is wanted back makes no difference"""
    with Farm() as f:
        f.are_there("n1", "n2", "n3")
        f.submit("1:3")
        f.trains(3)
        t = notice(f, "n1", 2)
        given_back(f, "n1", t, 2)
        check(f.trains(2)["nodes"] == ["n2", "n3"], f.job()["nodes"])
        go = f.heard("n2", "world.go")[-1]
        check(go["state_step"] == f.journal("commit")[-1]["step"], go)
        no_loss(f)


def below_minimum():
    """a job left with fewer nodes than its minimum holds none, and comes back by itself"""
    with Farm(2) as f:
        f.are_there("n1", "n2")
        f.submit("2:2")
        f.trains(2)
        t = notice(f, "n2", 2)
        given_back(f, "n2", t, 2)
        now = f.when("it to wait", lambda j: j["state"] == "waiting")
        check(now["reason"] and not now["nodes"], now)
        wait_for("n1 to be free", lambda: f.nodes()["n1"]["state"] == "idle")
        step = f.said("n1", "world.left")[-1]["step"]
        f.come("n2")
        f.trains(2)
        check(f.journal("go")[-1]["step"] == step, "it did not go on from step %d" % step)
        no_loss(f)


def topped_up():
    """a job that would fall below its minimum gets free nodes instead"""
    with two_and_one(nnodes="2:2") as f:
        f.come("n3")
        f.are_there("n3")
        t = notice(f, "n2", 2)
        given_back(f, "n2", t, 2)
        check(f.trains(2)["nodes"] == ["n1", "n3"], f.job()["nodes"])
        no_loss(f)


def all_at_once():
    """when all nodes are wanted back at once the state is in the spool before they go"""
    with Farm(2) as f:
        f.are_there("n1", "n2")
        f.submit("1:2")
        f.trains(2)
        t = notice(f, "n1", 2)
        notice(f, "n2", 2)
        given_back(f, "n1", t, 2)
        given_back(f, "n2", t, 2)
        step = f.said("n1", "world.left")[-1]["step"]
        f.come("n1", "n2")
        f.trains(2)
        go = [g for g in f.heard("n1", "world.go") + f.heard("n2", "world.go")
              if g["t"] > t][0]
        check(go["state_step"] == step and "state_node" not in go, go)
        no_loss(f)


def one_after_another():
    """the last node that has a state spools it, also when the others went before"""
    with Farm(3) as f:
        f.are_there("n1", "n2", "n3")
        f.submit("2:3")
        f.trains(3)
        for node in ("n2", "n3", "n1"):
            given_back(f, node, notice(f, node, 2), 2)
        step = f.journal("spooled")[-1]["step"]
        f.come("n2", "n3")
        f.trains(2)
        check(f.journal("go")[-1]["step"] == step, f.journal("go"))
        no_loss(f)


def before_the_next_is_ready():
    """a node is given back in time, also when the next world takes longer"""
    with two_and_one(nnodes="2:2", n3={"hello": False, "ready_s": 1e9},
                     prepare_limit_s=10) as f:
        f.come("n3")
        f.are_there("n3")
        t = notice(f, "n2", 2)
        given_back(f, "n2", t, 2)
        check(f.job()["generation"] == 2, "the next world was given up")
        f.set("n3", ready_s=0.01)
        f.trains(2)
        no_loss(f)


def earlier_notice():
    """a second notice with less grace is kept as well"""
    with two_and_one(nnodes="2:2", n3={"hello": False, "ready_s": 1e9},
                     prepare_limit_s=10) as f:
        f.come("n3")
        f.are_there("n3")
        notice(f, "n2", 6)
        f.when("the next world", lambda j: j["transaction"])
        t = notice(f, "n1", 2)
        given_back(f, "n1", t, 2)
        f.set("n3", ready_s=0.01)
        f.come("n1")
        f.trains(2)
        no_loss(f)


def sooner():
    """a node that is wanted back sooner than it was said first is given back by then"""
    with two_and_one(nnodes="2:2", n3={"hello": False, "ready_s": 1e9},
                     prepare_limit_s=10) as f:
        f.come("n3")
        f.are_there("n3")
        notice(f, "n2", 30)
        f.when("the next world", lambda j: j["transaction"])
        t = time.time()
        notice(f, "n2", 2)
        given_back(f, "n2", t, 2)
        f.set("n3", ready_s=0.01)
        f.trains(2)
        no_loss(f)


def given_back_too_early():
    """a node that goes before its workers have left costs the world at once"""
    with Farm() as f:
        f.are_there("n1", "n2", "n3")
        f.submit("2:3")
        f.trains(3)
        f.set("n3", answer="none")
        notice(f, "n2", 1)
        lost = wait_for("the loss", lambda: f.journal("lost"), limit_s=1.5)[0]
        check(lost["by_node"], lost)
        f.set("n3", answer="yes")
        f.trains(2)


def the_last_one_cut():
    """a node that has to go when all others of its world have gone ends that world once"""
    with Farm(2) as f:
        f.are_there("n1", "n2")
        f.submit("1:2")
        f.trains(2)
        f.set("n2", answer="none")
        notice(f, "n2", 0.5)
        f.tell("n1", "crash", code=9, all=True)
        notice(f, "n1", 0.2)
        for node in ("n1", "n2"):
            wait_for("%s to go" % node, lambda: f.journal("claim_end"))
        f.set("n2", answer="yes")
        f.come("n1", "n2")
        f.trains(2)
        check(len(f.journal("gone", generation=1)) == 1, f.journal("gone"))


def cut_alone():
    """a world of one node that has to go too early ends once"""
    with Farm(1) as f:
        f.are_there("n1")
        f.submit("1:1")
        f.trains(1)
        f.set("n1", answer="none")
        f.tell("n1", "notice", grace_s=0.3)
        wait_for("the loss", lambda: f.journal("lost"))
        f.set("n1", answer="yes")
        f.trains(1)
        check(len(f.journal("gone", generation=1)) == 1, f.journal("gone"))


def crash_while_asked():
    """a world that breaks while it is asked to leave, before the next is up, is survived"""
    with two_and_one(nnodes="2:2", n3={"hello": False, "ready_s": 1e9},
                     prepare_limit_s=10) as f:
        f.come("n3")
        f.are_there("n3")
        f.set("n1", answer="none")
        notice(f, "n2", 3)
        wait_for("the proposal", lambda: f.heard("n1", "world.propose"), limit_s=4)
        f.tell("n1", "crash", code=9)
        f.when("the loss", lambda j: j["restarts"] == 1)
        asked = len(f.heard("n1", "world.propose"))
        lost_t = f.journal("lost")[0]["t"]
        wait_for("n2 to go", lambda: f.journal("released", node="n2"))
        wait_for("the next proposal's time", lambda: time.time() > lost_t + 1.5)
        f.set("n3", ready_s=0.01)
        f.trains(2)
        check(len(f.heard("n1", "world.propose")) == asked, "a lost world was asked again")


def while_cancelled():
    """a node of a job that is being cancelled is given back in time"""
    with two_and_one() as f:
        f.set("n2", answer="none")
        f.order("job.cancel", job="1")
        f.phase("stop", "agree")
        t = notice(f, "n2", 4)
        f.set("n2", answer="yes")
        f.ended(143)
        given_back(f, "n2", t, 4)


def comes_back():
    """a node that was given back and comes again is used again"""
    with Farm(2) as f:
        f.are_there("n1", "n2")
        f.submit("1:2")
        f.trains(2)
        for n in range(1, 3):
            f.tell("n2", "notice", grace_s=2)
            f.closed("shrink", "done", n=n)
            f.trains(2)
        no_loss(f)


# --- connections -----------------------------------------------------------------------

def drop_in(phase):
    with two_and_one() as f:
        hold(f, phase)
        f.tell("n2", "drop", away_s=0.1)
        f.tell("n3", "drop", away_s=0.15)
        wait_for("n2 to be away", lambda: f.heard("n2", "told so", kind="lost"))
        let_go(f, phase)
        f.trains(3)
        no_loss(f)


def deaf(message):
    node = "n2" if message in ("world.propose", "world.commit") else "n3"
    with two_and_one(n3={"hello": False}) as f:
        f.set(node, deaf=message)
        f.come("n3")
        f.trains(3, limit_s=6)
        wait_for("%s again" % message, lambda: f.heard(node, message))
        check(f.heard(node, "deaf to %s" % message, kind="lost"), "%s was heard" % message)
        no_loss_of_old(f)


def no_loss_of_old(f):
    check(not f.journal("lost", generation=1), "the old world was lost")
    check(f.job()["restarts"] == 0, "it counts as a failure")


def deaf_to_kill():
    """a world whose end was not heard is ended when the agent is back"""
    with two_and_one(n3={"hello": False, "ready_s": 1e9, "deaf": "world.kill"}) as f:
        f.come("n3")
        f.closed("grow", "failed")
        f.set("n3", ready_s=0.01)
        f.trains(3)
        no_loss_of_old(f)


def deaf_to_release():
    """a release that was not heard is ordered again when the agent is back"""
    with Farm(2) as f:
        f.are_there("n1", "n2")
        f.submit("1:2")
        f.trains(2)
        f.set("n2", deaf="node.release")
        t = notice(f, "n2", 2)
        given_back(f, "n2", t, 2)
        f.trains(1)
        no_loss(f)


def deaf_to_withdraw():
    """a proposal whose withdrawal was not heard holds nobody up for ever"""
    with two_and_one() as f:
        hold(f, "agree")
        f.set("n1", deaf="world.withdraw")
        f.kill_agent("n3")
        f.next_agent("n3", hello=False)
        f.set("n2", answer="yes")
        f.closed("grow", "failed")
        f.trains(2)
        no_loss_of_old(f)


TESTS = [
    shrinks, first_rank, below_minimum, topped_up, all_at_once, one_after_another,
    before_the_next_is_ready, earlier_notice, sooner,
    given_back_too_early, the_last_one_cut, cut_alone, crash_while_asked, while_cancelled, comes_back,
    *each(own_in, "a member that is wanted back in %s of a grow is given back in time"),
    *each(joiner_in, "a joiner that is wanted back in %s of a grow is given back in time"),
    *each(drop_in, "connections that break in %s and come back cost nothing"),
    *each(deaf, "that %s was not heard before a connection broke costs no world",
          ["world.start", "world.propose", "world.commit", "world.go"]),
    deaf_to_kill, deaf_to_release, deaf_to_withdraw,
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
