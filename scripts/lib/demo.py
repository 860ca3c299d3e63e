"""demo.py - real training jobs in the holes of a compressed trace; see scripts/demo."""

import argparse
import json
import os
import re
import signal
import sys
import time

import malle_site
from malle_site import Site, check_ledger, program, quantile, rescales

# Three sizes of network, four jobs: what a user would call small, middle, large.
# name, hidden units, nodes, samples, submitted after (s)
JOBS = [
    ("large", 512, "1:6", 380000, 0),
    ("middle", 128, "1:4", 1400000, 4),
    ("small", 32, "1:3", 2600000, 8),
    ("late", 128, "1:4", 700000, 50),
]


def parse():
    parser = argparse.ArgumentParser(prog="demo", description="see scripts/demo --help")
    parser.add_argument("--keep", action="store_true", help="leave it running for play")
    parser.add_argument("--summary", metavar="FILE", help="write the summary as JSON too")
    parser.add_argument("--seconds", type=float, default=195, help="train at most so long")
    parser.add_argument("--seed", type=int, default=112, help="of the trace")
    return parser.parse_args()


class Demo:
    def __init__(self, options):
        self.options = options
        self.site = Site({
            "backend": "trace", "nodes": "n[1-6]", "node_cpus": 0.25,
            "trace_seed": options.seed, "trace_idle_share": 0.65, "trace_hours": 4.0,
            "trace_speedup": 30.0, "grace_s": 6.0, "horizon_s": 60.0,
            "min_interval_s": 5.0, "prepare_limit_s": 20.0, "replica_s": 3.0,
        }, keep=options.keep)
        self.clients = {}
        self.begun = None
        self.stopped = set()

    def submit(self, name, hidden, nodes, samples):
        ledger = self.site.path("ledger-" + name)
        os.makedirs(ledger, exist_ok=True)
        self.clients[name] = self.site.run(
            ["-J", name, "--nnodes=" + nodes, "--ledger", ledger, "--",
             program("fashion_mpi"), "--data", self.site.path("data"),
             "--hidden", str(hidden), "--max-samples", str(samples)],
            name + ".out")

    # --- the live view ----------------------------------------------------------

    def show(self, status):
        seconds = time.monotonic() - self.begun
        lines = ["", "%5.0f s  %s" % (seconds, self.bar(status))]
        for job in status["jobs"]:
            change = job["transaction"]
            doing = "%s: %s" % (change["kind"], change["phase"]) if change else ""
            probe = job["probe"]
            if probe["state"] == "measuring":
                doing += " probes %d nodes" % probe["size"]
            counts = job["rescales"]
            lines.append(
                "  %-7s %-9s %7.0f samples/s %9d samples  grew %d shrank %d (forced %d)  %s"
                % (job["name"], job["state"], job["rate_per_s"], job["cursor"],
                   counts["grow"], counts["shrink"], counts["forced"], doing))
        print("\n".join(lines), flush=True)

    @staticmethod
    def bar(status):
        names = {job["id"]: job["name"] for job in status["jobs"]}
        cells = []
        for node in status["nodes"]:
            state = node["state"]
            if state == "leaving":
                what = "(%s)" % names.get(node["job"], "goes")
            elif node["job"]:
                what = names[node["job"]]
            else:
                what = {"away": "busy", "hole": "hole", "claiming": "..", "idle": "free"}.get(state, state)
            cells.append("%s:%-8s" % (node["name"], what))
        return " ".join(cells)

    # --- one run ------------------------------------------------------------------

    def train(self):
        waiting = list(JOBS)
        shown = 0
        while True:
            seconds = time.monotonic() - self.begun
            while waiting and seconds >= waiting[0][4]:
                self.submit(*waiting.pop(0)[:4])
            status = self.site.status()
            if status and seconds - shown >= 3:
                self.show(status)
                shown = seconds
            if not waiting and all(c.poll() is not None for c in self.clients.values()):
                return
            if seconds > self.options.seconds:
                waiting.clear()
            if seconds > self.options.seconds and status:
                self.stop_those_that_run(status)
            if seconds > self.options.seconds + 30:
                return
            time.sleep(0.5)

    def stop_those_that_run(self, status):
        """One that waits is left to get a node first: it has a last word to say."""
        for job in status["jobs"]:
            if job["state"] == "running" and job["name"] not in self.stopped:
                print("\n  time is up: %s is asked to stop at its next step" % job["name"], flush=True)
                self.clients[job["name"]].send_signal(signal.SIGINT)
                self.stopped.add(job["name"])

    def accuracy(self, name):
        found = re.findall(r"accuracy ([0-9.]+)", self.site.read(name + ".out"))
        return float(found[-1]) if found else None

    def summary(self):
        status = self.site.status()
        totals = status["totals"]
        done = rescales(self.site)
        pauses = [r["pause_s"] for r in done if r["to"] > 0]
        ledgers = {name: check_ledger(self.site.path("ledger-" + name)) for name in self.clients}
        failed = [name for name, client in self.clients.items()
                  if client.poll() not in (0, 143) or self.accuracy(name) is None]
        shrinks = [r for r in done if r["to"] < r["from"]]
        self.by_kind = {}
        for record in done:
            kind = ("forced " if record["forced"] else "") + record["kind"]
            self.by_kind.setdefault(kind, []).append(record)
        self.totals = totals
        return {
            "samples": sum(job["cursor"] for job in status["jobs"]),
            "used_over_offered": round(totals["used_node_s"] / max(totals["offered_node_s"], 1e-9), 4),
            "rescales": {
                "grow": sum(r["to"] > r["from"] for r in done),
                "shrink": len(shrinks),
                "forced": sum(bool(r["forced"]) for r in shrinks),
            },
            "pause_s": {"p50": round(quantile(pauses, 0.5), 3), "max": round(max(pauses, default=0), 3)},
            "failed_jobs": len(failed),
            "samples_lost": sum(l["lost"] for l in ledgers.values()),
            "samples_repeated": sum(l["repeated"] for l in ledgers.values()),
            "accuracy": {name: self.accuracy(name) for name in self.clients},
        }

    def print_summary(self, summary):
        print("\nsamples trained        %d" % summary["samples"])
        print("holes' node-seconds    %.0f used of %.0f offered (%.1f %%), %.0f of them probing" % (
            self.totals["used_node_s"], self.totals["offered_node_s"],
            100 * summary["used_over_offered"], self.totals["probe_node_s"]))
        print("rescales               %(grow)d grown, %(shrink)d shrunk, of these %(forced)d forced"
              % summary["rescales"])
        for kind, records in sorted(self.by_kind.items()):
            line = "  %-20s %3d times" % (kind, len(records))
            pauses = [r["pause_s"] for r in records if r["to"] > 0]
            if pauses:  # what is left without nodes does not train on after a pause
                line += ", pause median %.3f s, worst %.3f s" % (quantile(pauses, 0.5), max(pauses))
            print(line)
        for name, accuracy in summary["accuracy"].items():
            if accuracy is not None:
                print("accuracy of %-10s %.4f" % (name, accuracy))
                continue
            print("accuracy of %-10s none; its last words:" % name)
            for line in self.site.read(name + ".out").splitlines()[-12:]:
                print("    " + line)
        print("failed jobs            %d" % summary["failed_jobs"])
        print("samples lost           %d" % summary["samples_lost"])
        print("samples repeated       %d" % summary["samples_repeated"], flush=True)

    def run(self):
        print("six nodes; holes of a generated trace, 30 times as fast;")
        print("files in %s" % self.site.dir, flush=True)
        malle_site.unpack_fashion(self.site.path("data"))
        self.begun = time.monotonic()
        self.site.start()
        for line in self.site.read("ctld.log").splitlines():
            if " sched: " in line:
                print(line.split(" sched: ", 1)[1])
        self.train()
        summary = self.summary()
        self.print_summary(summary)
        if self.options.summary:
            with open(self.options.summary, "w") as out:
                json.dump(summary, out)
                out.write("\n")
        return summary


def good(summary):
    return not (summary["failed_jobs"] or summary["samples_lost"] or summary["samples_repeated"])


def main():
    options = parse()
    demo = Demo(options)
    code = 1
    try:
        code = 0 if good(demo.run()) else 1
    except KeyboardInterrupt:
        code = 130
    except (RuntimeError, OSError) as why:
        print("demo: %s" % why, file=sys.stderr)
    if options.keep:
        print("\nit runs on; look with\n    export MALLE_SERVER=%s\n    %s\n"
              "and end it with\n    kill %d\n"
              "its agents follow within a minute; then remove %s" % (
                  demo.site.socket, program("malle-status"), demo.site.daemon.pid, demo.site.dir))
    else:
        demo.site.close()
    return code


sys.exit(main())
