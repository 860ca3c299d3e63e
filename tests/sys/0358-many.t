#!/usr/bin/env python3
"""A hundred nodes, ten jobs, and twenty seconds of everything that can happen.

Notices, agents killed, connections broken, worlds that crash, answers that are
late, pauses, cancels, jobs that finish, and the daemon killed with -9 in between,
all at random.  Nothing is expected of a single event; but in the journal a node
never has two owners, a job never two transactions, generations ascend, no agent
is given a second job's world or told to load a state that nobody has, and when
the noise is over every job trains or has ended.

    MALLE_SEED      another course of events (1)
    MALLE_SECONDS   a longer one (20)
"""
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from farm import Farm, check, run, wait_for

NODES, JOBS = 100, 10
SEED = int(os.environ.get("MALLE_SEED", "1"))
SECONDS = float(os.environ.get("MALLE_SECONDS", "20"))


class Noise:
    """Random events, from a seed: what is drawn, not when it meets the daemon."""

    def __init__(self, farm):
        self.farm, self.random = farm, random.Random(SEED)
        self.names = ["n%d" % i for i in range(1, NODES + 1)]
        self.jobs, self.counts = [], {}

    def submit(self):
        low = self.random.randint(1, 4)
        high = low + self.random.randint(0, 20)
        finish = self.random.choice([0, 0, 100, 400])
        self.jobs.append(self.farm.submit(
            "%d:%d" % (low, high), step_s=0.1, tick_s=0.05, finish=finish,
            ready_s=self.random.choice([0.05, 0.3])))

    def node(self):
        return self.random.choice(self.names)

    def job(self):
        return self.random.choice(self.jobs[-JOBS:])

    def notice(self):
        self.farm.tell(self.node(), "notice", grace_s=self.random.choice([0.3, 2, 4]))

    def kill(self):
        pid = self.farm.nodes()[self.node()]["agent_pid"]
        if pid:
            os.kill(pid, 9)

    def drop(self):
        self.farm.tell(self.node(), "drop", away_s=self.random.uniform(0, 0.5))

    def crash(self):
        self.farm.tell(self.node(), "crash", code=self.random.choice([1, 9, 137]))

    def late(self):
        self.farm.tell(self.node(), "set", no=self.random.randint(1, 3))

    def slow(self):
        self.farm.tell(self.node(), "set", ready_s=self.random.choice([0.05, 3]),
                       kill_s=self.random.choice([0.01, 1]))

    def deaf(self):
        self.farm.tell(self.node(), "set", deaf=self.random.choice(
            ["world.start", "world.go", "world.propose", "world.commit", "world.kill",
             "node.release"]))

    def pause(self):
        self.farm.ask("job.pause", job=self.job())

    def resume(self):
        self.farm.ask("job.resume", job=self.job())

    def cancel(self):
        self.farm.ask("job.cancel", job=self.job(), force=self.random.random() < 0.5)
        self.submit()

    def restart(self):
        self.farm.restart()

    EVENTS = [(notice, 20), (kill, 8), (drop, 15), (crash, 5), (late, 10), (slow, 8),
              (deaf, 8), (pause, 3), (resume, 6), (cancel, 2), (restart, 1)]

    def one(self):
        event, = self.random.choices([e for e, _ in self.EVENTS], [w for _, w in self.EVENTS])
        self.counts[event.__name__] = self.counts.get(event.__name__, 0) + 1
        event(self)


def calm(f, noise):
    """What the noise has left behind is undone."""
    for name in noise.names:
        f.tell(name, "set", no=0, ready_s=0.05, kill_s=0.01, deaf="")
    for job in noise.jobs:
        f.ask("job.resume", job=job)


def settled(f):
    """Every job has ended, or trains with nothing under way, or has no room."""
    jobs = f.ask("status.get", what="jobs")[1]["data"]["jobs"]
    return all(j["state"] in ("ended", "running") for j in jobs) and jobs


def noise():
    """a hundred nodes, ten jobs and random faults: one owner, one transaction, no state lost"""
    with Farm(NODES, min_interval_s=0.5, settle_s=0.1, prepare_limit_s=1.0, replica_s=0.5,
              log_level="info", max_restarts=1000) as f:
        noise = Noise(f)
        wait_for("nodes", lambda: sum(
            n["state"] == "idle" for n in f.nodes().values()) > NODES // 2, limit_s=30)
        for _ in range(JOBS):
            noise.submit()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            noise.one()
            due = time.monotonic() + 0.04
            wait_for("the next event", lambda: time.monotonic() > due)
        calm(f, noise)
        wait_for("calm", lambda: settled(f), limit_s=45)
        rescales = f.journal("rescale", result="done")
        print("# seed %d: %s, %d rescales done" % (SEED, noise.counts, len(rescales)))
        check(len(rescales) > JOBS, "only %d rescales were done" % len(rescales))


if __name__ == "__main__":
    sys.exit(run([noise]))
