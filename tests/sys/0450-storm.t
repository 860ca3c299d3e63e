#!/usr/bin/env python3
"""Three trainings on four small nodes, and everything around them is killed.

Moments are random; a failure prints the seed, and MALLE_SEED=n repeats the same
choices (not the same interleaving).  The short form takes about a minute,
MALLE_LONG=1 ten times that.  Whatever was killed, at the end each job has
exited 0, has every sample exactly once in its ledger, and has left no process.
"""

import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../scripts/lib"))
import malle_site
from malle_site import Site, check_ledger, program, wait_for
from malle_tap import check, run

DATA = "/usr/share/datasets/fashion-mnist"
LONG = os.environ.get("MALLE_LONG") == "1"
TIMES = 10 if LONG else 1
SEED = int(os.environ.get("MALLE_SEED") or time.time())
JOBS = ("a", "b", "c")
data = None


class Storm:
    """A site of four nodes with three jobs on it."""

    def __init__(self, samples, **options):
        settings = {"backend": "static", "nodes": "n[1-4]", "node_cpus": 0.25,
                    "probe": False, "settle_s": 0.1, "min_interval_s": 1.0, "replica_s": 0.5,
                    "grace_s": 5.0, "max_restarts": 20}
        settings.update(options)
        self.site = Site(settings, keep=bool(os.environ.get("MALLE_KEEP")))
        self.samples = samples * TIMES
        self.random = random.Random(SEED)

    def __enter__(self):
        self.site.start()
        self.clients = {name: self.submit(name) for name in JOBS}
        return self

    def __exit__(self, kind, why, trace):
        if kind:
            print("# MALLE_SEED=%d%s" % (SEED, ", kept %s" % self.site.dir
                                         if self.site.keep else ""))
        self.site.close()

    def submit(self, name):
        ledger = self.site.path("ledger-" + name)
        os.makedirs(ledger)
        return self.site.run(
            ["-J", name, "--spool", self.site.path("spool-" + name), "--nnodes=1:4",
             "--ledger", ledger, "--", program("fashion_mpi"), "--data", data,
             "--hidden", "64", "--max-samples", str(self.samples)], name + ".out")

    def trains(self):
        return any(client.poll() is None for client in self.clients.values())

    def pause(self, least_s, most_s):
        """Random time, or less if no job is left to be disturbed."""
        end = time.monotonic() + self.random.uniform(least_s, most_s)
        while self.trains() and time.monotonic() < end:
            time.sleep(0.02)

    def pids(self, names):
        """Processes of this site whose program is one of these."""
        return sorted(pid for pid, command in self.site.left_over()
                      if os.path.basename(command.split(" ")[0]) in names)

    def hit(self, names, signo=signal.SIGKILL):
        pids = self.pids(names)
        if not pids:
            return None
        pid = self.random.choice(pids)
        Site.end(pid, signo)
        return pid

    def ends_well(self, limit_s=150):
        for name, client in self.clients.items():
            wait_for("job %s to end" % name, lambda: client.poll() is not None,
                     limit_s * TIMES)
            check(client.returncode == 0, "malle-run of job %s ended with %d: %s" % (
                name, client.returncode, self.site.read(name + ".out")[-600:]))
            ledger = check_ledger(self.site.path("ledger-" + name))
            check(ledger["lost"] == 0 and ledger["repeated"] == 0 and
                  ledger["samples"] == self.samples, "ledger of %s: %s" % (name, ledger))
        wait_for("workers to go", lambda: not self.pids(
            ("fashion_mpi", "mpirun", "orted", "malle-rsh")), 10)


def daemon():
    """mallectld killed with -9 twenty times, at any moment, costs no job a sample"""
    with Storm(samples=900000) as storm:
        kills = 0
        while storm.trains() and kills < 20 * TIMES:
            storm.pause(0.0, 3.0)
            storm.site.kill_daemon()
            kills += 1
            storm.pause(0.0, 0.5)
            storm.site.start()
        check(kills > 5, "only %d kills before the end" % kills)
        storm.ends_well()


def parts():
    """agents, mpirun, its daemons and workers killed with -9 cost no job a sample"""
    with Storm(samples=500000) as storm:
        hits = 0
        while storm.trains() and hits < 12 * TIMES:
            storm.pause(1.0, 4.0)
            what = storm.random.choice(("malle-agent", "fashion_mpi", "mpirun", "orted"))
            hits += storm.hit((what,)) is not None
        storm.ends_well()


def hung_node():
    """an agent that is stopped for a while costs its job time, and no sample"""
    with Storm(samples=300000) as storm:
        for _ in range(2 * TIMES):
            storm.pause(3.0, 5.0)
            pid = storm.hit(("malle-agent",), signal.SIGSTOP)
            storm.pause(2.0, 5.0)
            if pid:
                Site.end(pid, signal.SIGCONT)
        storm.ends_well()


def main():
    global data
    if not os.path.isdir(DATA):
        print("skip: %s is absent (package dataset-fashion-mnist)" % DATA)
        return 0
    unpacked = Site({})
    data = malle_site.unpack_fashion(unpacked.path("data"))
    try:
        return run([daemon, parts, hung_node])
    finally:
        unpacked.close()


sys.exit(main())
