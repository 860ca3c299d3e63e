#!/usr/bin/env python3
"""Real training under mallectld, and what is killed in the middle of it.

Every case trains the Fashion-MNIST example on agents of this machine with a
ledger, breaks one thing, and asks three questions: does the job go on, does it
end well, and was any sample lost or repeated.
"""

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../scripts/lib"))
import malle_site
from malle_site import Site, check_ledger, program, wait_for
from malle_tap import check, run

DATA = "/usr/share/datasets/fashion-mnist"
data = None


class Training:
    """A site of static nodes with one job of the example on it."""

    def __init__(self, nodes=3, nnodes="1:3", samples=700000, **options):
        settings = {"backend": "static", "nodes": "n[1-%d]" % nodes, "node_cpus": 0.25,
                    "probe": False, "settle_s": 0.1, "min_interval_s": 1.0,
                    "replica_s": 0.5, "grace_s": 5.0}
        settings.update(options)
        self.site = Site(settings, keep=bool(os.environ.get("MALLE_KEEP")))
        self.nnodes, self.samples = nnodes, samples

    def __enter__(self):
        self.site.start()
        self.client = self.submit(self.nnodes, self.samples)
        return self

    def __exit__(self, kind, why, trace):
        if kind and os.environ.get("MALLE_KEEP"):
            print("# kept %s" % self.site.dir)
        self.site.close()

    def submit(self, nnodes, samples, name="job"):
        ledger = self.site.path("ledger-" + name)
        os.makedirs(ledger)
        return self.site.run(
            ["-J", name, "--nnodes=" + nnodes, "--ledger", ledger, "--", program("fashion_mpi"),
             "--data", data, "--hidden", "64", "--max-samples", str(samples)], name + ".out")

    def job(self, job=1):
        return self.site.job(job) or {
            "cursor": 0, "state": "", "n_nodes": 0, "nodes": [], "restarts": 0, "transaction": None,
            "rescales": {"failed": 0, "shrink": 0}, "generation": 0}

    def trains(self, nodes=None, job=1, limit_s=40):
        """Wait until it has trained further than now (on so many nodes)."""
        before = self.job(job)["cursor"]

        def moved():
            now = self.job(job)
            return (now["state"] == "running" and not now["transaction"] and
                    (nodes is None or now["n_nodes"] == nodes) and now["cursor"] > before and now)
        return wait_for("job %s to train on %s nodes" % (job, nodes), moved, limit_s)

    def ends_well(self, client=None, name="job", limit_s=120):
        client = client or self.client
        wait_for("job %s to end" % name, lambda: client.poll() is not None, limit_s)
        check(client.returncode == 0, "malle-run ended with %d: %s" % (
            client.returncode, self.site.read(name + ".out")[-400:]))
        ledger = check_ledger(self.site.path("ledger-" + name))
        check(ledger["lost"] == 0 and ledger["repeated"] == 0, "ledger says %s" % ledger)
        check(ledger["samples"] == self.samples, "ledger has %s samples, not %d" % (
            ledger["samples"], self.samples))
        return ledger

    def workers(self, node=None):
        """Pids of trainers, of one node or of all."""
        found = []
        for pid, command in self.site.left_over():
            if "fashion_mpi" not in command.split(" ")[0]:
                continue
            try:
                with open("/proc/%d/environ" % pid, "rb") as file:
                    marks = file.read().split(b"\0")
            except OSError:
                continue
            if node is None or ("MALLE_NODE=%s" % node).encode() in marks:
                found.append(pid)
        return found

    def agent(self, node):
        return {n["name"]: n for n in self.site.status("nodes")["nodes"]}[node]["agent_pid"]


def agent_killed():
    """an agent killed with -9 costs its node, the job trains on and no sample is lost"""
    with Training() as t:
        t.trains(3)
        os.kill(t.agent("n2"), signal.SIGKILL)
        wait_for("the loss to be seen", lambda: t.job()["restarts"] >= 1, 10)
        t.trains()
        t.ends_well()


def head_agent_killed():
    """the agent of rank 0's node killed with -9 is survived as well"""
    with Training() as t:
        first = t.trains(3)["nodes"][0]
        os.kill(t.agent(first), signal.SIGKILL)
        wait_for("the loss to be seen", lambda: t.job()["restarts"] >= 1, 10)
        t.trains()
        t.ends_well()


def worker_killed():
    """a worker killed with -9 is a failure of its world, which starts again from its newest state"""
    with Training() as t:
        t.trains(3)
        os.kill(t.workers()[0], signal.SIGKILL)
        wait_for("the loss to be seen", lambda: t.job()["restarts"] >= 1, 10)
        t.trains(3)
        t.ends_well()


def joiner_stopped():
    """a joiner that is stopped is rolled back and the survivors never wait for it"""
    with Training(nodes=3, samples=1000000, prepare_limit_s=4.0) as t:
        t.trains(3)
        blocker = t.submit("2:2", 60000 * 40, name="other")
        t.trains(1)
        stopped = []

        def stop_joiner():
            change = t.job()["transaction"]
            if not change or change["kind"] != "grow":
                return False
            here = set(t.job()["nodes"])
            for node in set(change["target"]) - here:
                for pid in t.workers(node):
                    os.kill(pid, signal.SIGSTOP)
                    stopped.append(pid)
            return stopped

        t.site.ctl("cancel", "2", "--force")
        wait_for("a joiner to stop", stop_joiner, 20, every_s=0.01)
        before = t.job()["cursor"]
        wait_for("the grow to be rolled back", lambda: t.job()["rescales"]["failed"] >= 1, 15)
        check(t.job()["cursor"] > before, "survivors waited for the joiner")
        check(t.job()["restarts"] == 0, "the stopped joiner cost the world")
        t.trains(3)
        blocker.wait(timeout=10)
        t.ends_well()


def daemon_killed():
    """mallectld killed with -9 leaves workers stepping, and finds them again"""
    with Training() as t:
        t.trains(3)
        workers = sorted(t.workers())
        t.site.kill_daemon(signal.SIGKILL)
        t.site.start()
        now = t.trains(3)
        check(sorted(t.workers()) == workers, "other workers train now")
        check(now["generation"] == 1 and now["restarts"] == 0, "the world was started anew")
        t.ends_well()


def daemon_killed_in_a_rescale():
    """mallectld killed with -9 at any moment of a rescale costs no sample"""
    for phase in ("prepare", "agree", "commit", "handover"):
        with Training(samples=600000) as t:
            t.trains(3)
            t.submit("1:1", 60000, name="other")

            def in_phase():
                change = t.job()["transaction"]
                return (change and change["phase"] == phase) or \
                    t.job()["rescales"]["shrink"] > 0
            wait_for("a rescale", in_phase, 30, every_s=0.002)
            t.site.kill_daemon(signal.SIGKILL)
            t.site.start()
            t.trains()
            t.ends_well()


def daemon_stopped():
    """SIGTERM ends mallectld with 0 and leaves workers training; the next one adopts them"""
    with Training() as t:
        t.trains(3)
        workers = sorted(t.workers())
        check(t.site.kill_daemon(signal.SIGTERM) == 0, "exit code")
        check(sorted(t.workers()) == workers, "workers went with it")
        t.site.start()
        t.trains(3)
        check(sorted(t.workers()) == workers, "other workers train now")
        t.ends_well()


def nothing_left():
    """after the end no process and no shared memory of a job is left"""
    with Training(samples=200000) as t:
        t.ends_well()
        wait_for("workers to go", lambda: not t.workers(), 10)
        site = t.site
    check(not site.left_over(), "left: %s" % site.left_over())
    check(not [name for name in os.listdir("/dev/shm")
               if any(claim in name for claim in site.claims())], "shared memory is left")


def main():
    global data
    if not os.path.isdir(DATA):
        print("skip: %s is absent (package dataset-fashion-mnist)" % DATA)
        return 0
    unpacked = Site({})
    data = malle_site.unpack_fashion(unpacked.path("data"))
    try:
        return run([agent_killed, head_agent_killed, worker_killed, joiner_stopped,
                    daemon_killed, daemon_killed_in_a_rescale, daemon_stopped, nothing_left])
    finally:
        unpacked.close()


sys.exit(main())
