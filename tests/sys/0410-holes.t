#!/usr/bin/env python3
"""Real training in the holes of a trace: a hole closes, the job leaves it in time.

The trace is written here, event by event, so that what has to happen is known:
one node goes, the one of rank 0 goes, all go (the job is paused with its state in
its spool), all come back.  Long form (MALLE_LONG=1): the whole demo as well.
"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../scripts/lib"))
import malle_site
from malle_site import Site, check_ledger, program, wait_for
from malle_tap import check, run

DATA = "/usr/share/datasets/fashion-mnist"
GRACE_S = 6.0
SAMPLES = 1200000

# t_s,joins,leaves: nodes n1 n2 n3 are 0 1 2
TRACE = """# one goes and comes back, rank 0's goes, all go, all come back
0,0 1 2,
7,,2
10,2,
14,,0
20,,1 2
25,0 1 2,
300,,0 1 2
"""

site = None
ledger = None


def closed(record):
    return record["event"] == "node" and not record["eligible"]


def forced_shrinks():
    """each closing hole shrinks the job at once, and the last one pauses it with a reason"""
    done = [r for r in site.journal("rescale") if r["forced"] and r["result"] == "done"]
    steps = [(r["kind"], r["from"], r["to"]) for r in done]
    check(steps[:2] == [("shrink", 3, 2), ("shrink", 3, 2)], "forced: %s" % steps)
    check(steps[-1][0] == "pause" and steps[-1][2] == 0, "forced: %s" % steps)


def deadlines():
    """every node that was wanted back was clean and gone before its grace was over"""
    wanted, given = {}, 0
    for record in site.journal():
        if closed(record):
            wanted[record["node"]] = record["t"]
        if record["event"] == "released":
            check(record["clean"], "%s was not clean" % record["node"])
            took = record["t"] - wanted.pop(record["node"])
            check(took < GRACE_S, "%s took %.2f s" % (record["node"], took))
            print("# %s was given back after %.2f s" % (record["node"], took))
            given += 1
    check(not wanted and given == 4, "%d given back, never: %s" % (given, wanted))


def owners():
    """no node ever has two owners"""
    held = {}
    for record in site.journal():
        if record["event"] == "world":
            for node in record["nodes"]:
                held.setdefault(node, {})[record["generation"]] = record["job"]
                check(len(set(held[node].values())) == 1, "%s has %s" % (node, held[node]))
        if record["event"] == "gone":
            for generations in held.values():
                generations.pop(record["generation"], None)


def samples():
    """the job ends well and no sample was lost or repeated"""
    books = check_ledger(ledger)
    check(books["lost"] == 0 and books["repeated"] == 0, "ledger says %s" % books)
    check(books["samples"] == SAMPLES, "%s samples" % books["samples"])
    words = site.read("job.out")
    accuracy = float(words.split("accuracy ")[1].split()[0])
    check(accuracy >= 0.84, "accuracy %g" % accuracy)


def account():
    """node-seconds used are never more than those offered"""
    totals = site.status()["totals"]
    check(0 < totals["used_node_s"] <= totals["offered_node_s"] + 0.5, "%s" % totals)


def demo():
    """the demo ends with 0, at least 10 rescales, 3 of them forced, and every sample once"""
    out = site.path("summary.json")
    done = subprocess.run([os.path.join(malle_site.ROOT, "scripts/demo"), "--summary", out],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(done.returncode == 0, done.stdout[-1500:])
    with open(out) as file:
        summary = json.load(file)
    counts = summary["rescales"]
    check(counts["grow"] + counts["shrink"] >= 10 and counts["forced"] >= 3, "%s" % counts)
    check(not summary["failed_jobs"] and not summary["samples_lost"] and
          not summary["samples_repeated"], "%s" % summary)
    check(min(summary["accuracy"].values()) >= 0.84, "%s" % summary["accuracy"])


def train():
    global ledger
    with open(site.path("holes.csv"), "w") as trace:
        trace.write(TRACE)
    data = malle_site.unpack_fashion(site.path("data"))
    ledger = site.path("ledger")
    os.makedirs(ledger)
    site.start()
    client = site.run(["-J", "job", "--nnodes=1:3", "--ledger", ledger, "--",
                       program("fashion_mpi"), "--data", data, "--hidden", "64",
                       "--max-samples", str(SAMPLES)], "job.out")
    wait_for("the job to end", lambda: client.poll() is not None, 150)


def main():
    global site
    if not os.path.isdir(DATA):
        print("skip: %s is absent (package dataset-fashion-mnist)" % DATA)
        return 0
    site = Site({"backend": "trace", "nodes": "n[1-3]", "node_cpus": 0.25,
                 "trace_loop": False, "probe": False, "settle_s": 0.1, "min_interval_s": 0.5,
                 "grace_s": GRACE_S, "replica_s": 0.5})
    with open(site.path("malle.conf"), "a") as conf:
        conf.write('trace_file = "%s"\n' % site.path("holes.csv"))
    try:
        train()
        tests = [forced_shrinks, deadlines, owners, samples, account]
        if os.environ.get("MALLE_LONG") == "1":
            tests.append(demo)
        return run(tests)
    finally:
        site.close()


sys.exit(main())
