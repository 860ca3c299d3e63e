#!/usr/bin/env python3
"""mallectld --view: what real answers of Slurm say, node by node.

The expected verdicts were written down by reading the documents, not by running
the program.  Answers that were captured on real clusters lie outside this
project; where they are absent those tests are skipped.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../scripts/lib"))
from malle_site import ROOT, program
from malle_tap import check, run

DATA = os.path.join(ROOT, "..", "shared", "data", "slurm")
UNREAD = 65

# Small ones, node by node: the reason, "" for an eligible one.
NODES = {
    "text/scontrol_nodes.txt": {
        "c1": "DRAIN", "c2": "MAINTENANCE", "c3": "MAINTENANCE", "c4": "DRAIN",
        "c5": "RESERVED", "c6": "", "c7": ""},
    "v0.0.37-cli-21.08/sinfo_out.json": {
        "cs2.example.company.com": "MIXED", "cs3.example.company.com": "",
        "cs4.example.company.com": "ALLOCATED", "cs5.example.company.com": "DOWN"},
    "v0.0.38-rest-22.05/slurm_get_nodes.json": {"localhost": ""},
    "v0.0.39-cli-23.02/sinfo_dataparser.json": {"localhost": "ALLOCATED"},
    "v0.0.40-rest-23.11/V0040OpenapiNodesResp.json": {
        "dtn1": "NOT_RESPONDING", "dtn2": "NOT_RESPONDING", "n0160": "ALLOCATED",
        "n0161": "ALLOCATED", "n0162": "MIXED", "n0163": "ALLOCATED", "n0164": "DRAIN",
        "n0397": "ALLOCATED", "n0398": "ALLOCATED", "n0399": "ALLOCATED",
        "n0999": "DRAIN", "n1000": "MIXED"},
    "v0.0.41-rest-24.05/slurm-node-allocated.json": {"cn003": "ALLOCATED"},
    "v0.0.41-rest-24.05/slurm-node-drain.json": {"cn146": "DRAIN"},
    "v0.0.41-rest-24.05/slurm-node-draining.json": {"cn1": "DRAIN"},
    "v0.0.41-rest-24.05/slurm-node-with-gpus-model-idle.json": {"gpu1": "COMPLETING"},
    "v0.0.43-rest-25.05/slurm-node-allocated.json": {"cn1": "ALLOCATED"},
    "v0.0.43-rest-25.05/slurm-node-drain.json": {"cn2": "DRAIN"},
    "v0.0.43-rest-25.05/slurm-node-planned.json": {"gpu1": "COMPLETING"},
    "v0.0.43-rest-25.05/slurm-nodes.json": {
        "cn1": "", "cn2": "", "cn3": "DRAIN", "cn4": "DOWN", "gpu1": "COMPLETING",
        "gpu2": ""},
}

# One node each, whatever its name is.
ONE_NODE = {
    "slurm-node-down.json": "DOWN",
    "slurm-node-idle.json": "",
    "slurm-node-mixed.json": "MIXED",
    "slurm-node-without-gpu.json": "",
    "slurm-node-with-gpus-model-allocated.json": "ALLOCATED",
    "slurm-node-with-gpus-model-idle.json": "COMPLETING",
    "slurm-node-with-gpus-model-mixed.json": "MIXED",
}

JOBS = {
    "v0.0.37-cli-21.08/squeue_out.json": {"RUNNING": 1, "PENDING": 1},
    "v0.0.41-rest-24.05/slurm-jobs.json": {
        "TIMEOUT": 1, "COMPLETED": 8, "FAILED": 1, "RUNNING": 3, "PENDING": 1},
    "v0.0.43-rest-25.05/slurm-jobs.json": {
        "CANCELLED": 5, "TIMEOUT": 1, "COMPLETED": 4, "FAILED": 1, "RUNNING": 6,
        "PENDING": 2},
}

# Files of one job are named after its state.
ONE_JOB = {"completed": "COMPLETED", "failed": "FAILED", "pending": "PENDING",
           "running": "RUNNING", "timeout": "TIMEOUT", "gpus-completed": "COMPLETED",
           "gpus-pending": "PENDING", "gpus-gres": "RUNNING", "gpus-multi-nodes": "RUNNING",
           "gpus-multi-types": "RUNNING", "gpus-per-node": "RUNNING",
           "gpus-per-socket": "RUNNING", "gpus-per-task": "RUNNING",
           "gpus-running": "RUNNING", "gpus-type": "RUNNING"}

# What is no view: errors without a record, or no answer of Slurm at all.
REFUSED = ["slurm-job-archived.json", "slurm-job-gpus-archived.json",
           "slurm-job-unfound.json", "slurm-node-unfound.json",
           "slurm-jwt-expired-token.json", "slurm-jwt-invalid-token.json",
           "slurm-jwt-invalid-headers.txt", "slurm-jwt-missing-headers.txt",
           "slurm-not-found.txt", "sinfo_gres.txt.gz"]

PARTITIONS = {
    "v0.0.38-rest-22.05/slurm_get_partitions.json": ["part01", "part02", "xfer"],
    "v0.0.40-rest-23.11/V0040OpenapiPartitionResp.json":
        ["compute", "gpu", "memory", "memorylong", "preempt"],
    "v0.0.41-rest-24.05/slurm-partitions.json": ["batch", "debug", "interactive", "ia"],
    "v0.0.43-rest-25.05/slurm-partitions.json": ["normal", "gpu"],
}

RESERVATIONS = {
    "text/reservations.txt": [("pre-reservation-maintenance", "node[001-102]")],
    "text/reservations_empty.txt": [],
    "text/reservations_relative_time.txt": [("maint-158", "c[1-4]")],
    "v0.0.38-rest-22.05/slurm_get_reservations.json": [("root_1", "localhost")],
    "v0.0.41-rest-24.05/slurm-reservations.json": [("training", "cn[001-080,101-532]")],
    "v0.0.43-rest-25.05/slurm-reservations.json": [],
}


def view(text=None, path="-", want=0):
    """The view of a text, or of a file."""
    if isinstance(text, str):
        text = text.encode()
    done = subprocess.run([program("mallectld"), "--view", path], input=text or b"",
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
    check(done.returncode == want, "%s: exit code %d instead of %d: %s" %
          (path, done.returncode, want, done.stderr.decode()))
    lines = done.stderr.decode().splitlines()
    check(len(lines) == (0 if want == 0 else 1), "said %r" % lines)
    return json.loads(done.stdout) if want in (0, UNREAD) else None


def captured(name, want=0):
    return view(path=os.path.join(DATA, name), want=want)


def reasons(answer):
    for node in answer["nodes"]:
        check(node["eligible"] == (node["reason"] == ""), "%s is %s and %s" %
              (node["name"], node["eligible"], node["reason"]))
    return {node["name"]: node["reason"] for node in answer["nodes"]}


def counts(items, key):
    found = {}
    for item in items:
        found[item[key]] = found.get(item[key], 0) + 1
    return found


def every_file(ending=""):
    for folder, _, files in sorted(os.walk(DATA)):
        for name in sorted(files):
            if name.endswith(ending):
                yield os.path.relpath(os.path.join(folder, name), DATA)


# --- captured answers ----------------------------------------------------------------

def test_small():
    """captured answers: each node has the verdict that was written down"""
    for name, want in NODES.items():
        got = reasons(captured(name))
        check(got == want, "%s: %r" % (name, got))
    for name in every_file():
        want = ONE_NODE.get(os.path.basename(name))
        if want is not None:
            got = list(reasons(captured(name)).values())
            check(got == [want], "%s: %r" % (name, got))


def test_large():
    """captured answers: a hundred idle nodes are a hundred, each once, in order"""
    answer = captured("v0.0.41-rest-24.05/slurm-nodes.json")
    check(counts(answer["nodes"], "reason") == {"": 100}, "they are not all idle")
    names = [node["name"] for node in answer["nodes"]]
    check(len(set(names)) == 100, "some repeat")
    check(answer["source"] == "json, Slurm 24.05.3", answer["source"])


def test_jobs():
    """captured answers: every job with its state"""
    for name, want in JOBS.items():
        got = counts(captured(name)["jobs"], "state")
        check(got == want, "%s: %r" % (name, got))
    for name in every_file(".json"):
        kind = os.path.basename(name)[len("slurm-job-"):-len(".json")]
        if kind in ONE_JOB and os.path.basename(name).startswith("slurm-job-"):
            got = [job["state"] for job in captured(name)["jobs"]]
            check(got == [ONE_JOB[kind]], "%s: %r" % (name, got))
    job = captured("v0.0.37-cli-21.08/squeue_out.json")["jobs"][0]
    check((job["id"], job["user"], job["nodes"], job["uid"]) ==
          (26515966, "bkd", "cs75", 1977600017), "%r" % job)
    check((job["submit_s"], job["start_s"]) == (1684114900, 1684114921), "%r" % job)


def test_refused():
    """captured answers: errors, and what is no answer, are exit code 65 and no nodes"""
    for name in every_file():
        if os.path.basename(name) in REFUSED:
            answer = captured(name, want=UNREAD)
            check(answer["errors"], "%s: no errors" % name)
            check(not answer["nodes"] and not answer["jobs"], "%s: records" % name)


def test_others():
    """captured answers: partitions and reservations, with their nodes"""
    for name, want in PARTITIONS.items():
        got = captured(name)["partitions"]
        check([one["name"] for one in got] == want, "%s: %r" % (name, got))
        check(all(one["state"] == "UP" for one in got), "%s: %r" % (name, got))
    limits = {one["name"]: one["max_time_s"] for one in
              captured("v0.0.40-rest-23.11/V0040OpenapiPartitionResp.json")["partitions"]}
    check(limits["compute"] == 86400 and limits["memorylong"] == 20160 * 60, "%r" % limits)
    for name, want in RESERVATIONS.items():
        got = captured(name)["reservations"]
        check([(one["name"], one["nodes"]) for one in got] == want, "%s: %r" % (name, got))
    relative = captured("text/reservations_relative_time.txt")["reservations"][0]
    check(relative["start_s"] is None, "a time without a date was believed")
    root = captured("v0.0.38-rest-22.05/slurm_get_reservations.json")["reservations"][0]
    check((root["start_s"], root["end_s"]) == (1865088000, 1865095200), "%r" % root)


def test_none_forgotten():
    """captured answers: every file there is looked at by name"""
    known = set(NODES) | set(JOBS) | set(PARTITIONS) | set(RESERVATIONS)
    known.add("v0.0.41-rest-24.05/slurm-nodes.json")
    for name in every_file():
        base = os.path.basename(name)
        job = base[len("slurm-job-"):-len(".json")] if base.startswith("slurm-job-") else ""
        if name in known or base in ONE_NODE or base in REFUSED or job in ONE_JOB:
            continue
        check(base == "slurm-ping.json", "%s is in no table" % name)


def test_cut_captured():
    """captured answers cut off anywhere: 65, and no node is eligible"""
    for name in every_file():
        if "node" not in name.lower() and "sinfo" not in name:
            continue
        with open(os.path.join(DATA, name), "rb") as file:
            whole = file.read()
        if name.endswith(".gz") or not name.endswith(".json"):
            continue
        end = len(whole.rstrip())
        for part in range(1, 8):
            answer = view(whole[:end * part // 8], want=UNREAD)
            check(not any(node["eligible"] for node in answer["nodes"]),
                  "%s, %d/8: believed" % (name, part))


# --- answers made here ---------------------------------------------------------------

def rest(nodes, **more):
    body = {"meta": {"Slurm": {"release": "22.05.8"}}, "errors": [], "nodes": nodes}
    body.update(more)
    return json.dumps(body)


def node(name, *words, **more):
    return dict({"name": name, "state": list(words), "partitions": ["batch"]}, **more)


def test_words():
    """IDLE alone is idle: PLANNED, CLOUD and DYNAMIC_NORM may stand beside it, in any order"""
    answer = view(rest([
        node("a", "IDLE"), node("b", "PLANNED", "IDLE"), node("c", "CLOUD", "IDLE"),
        node("d", "IDLE", "DYNAMIC_NORM"), node("e", "DRAIN", "IDLE"),
        node("f", "IDLE", "MAINT"), node("g", "IDLE", "SOMETHING_NEW"), node("h", "IDLEX"),
        node("i"), node("j", "IDLE", reservation="r1"), node("k", "IDLE", "DOWN"),
        dict(node("l"), state="idle", state_flags=["DRAIN"]),
        dict(node("m"), state="idle", state_flags=[]), dict(node("n"), state=None),
        dict(node("o"), state=7), node("p", "IDLE", "IDLE"),
    ]))
    got = reasons(answer)
    check(got == {
        "a": "", "b": "", "c": "", "d": "", "e": "DRAIN", "f": "MAINTENANCE",
        "g": "UNKNOWN_FLAG", "h": "UNKNOWN_FLAG", "i": "UNKNOWN", "j": "RESERVED",
        "k": "UNKNOWN_FLAG", "l": "DRAIN", "m": "", "n": "UNKNOWN_FLAG",
        "o": "UNKNOWN_FLAG", "p": ""}, "%r" % got)
    check("SOMETHING_NEW" in answer["nodes"][6]["flags"], "the word is not shown")


def test_suffixes():
    """scontrol's text: suffixes and '+', values with blanks, the first of a key counts"""
    answer = view(
        "NodeName=a State=IDLE Partitions=x,y Reason=State=DOWN [root@now]\n"
        "NodeName=b State=IDLE* Partitions=x\n"
        "NodeName=c State=IDLE+PLANNED Partitions=x\n"
        "NodeName=d State=idle~ OS=Linux 6.1 #1 SMP State=IDLE\n"
        "NodeName=e Reason=see State=DRAIN later State=IDLE\n"
        "NodeName=f Partitions=x\n"
        "NodeName=g State=MIXED- Partitions=x\n")
    check(reasons(answer) == {"a": "", "b": "NOT_RESPONDING", "c": "", "d": "POWERED_DOWN",
                              "e": "UNKNOWN_FLAG", "f": "UNKNOWN", "g": "MIXED"},
          "%r" % reasons(answer))
    check(answer["nodes"][0]["partitions"] == ["x", "y"], "%r" % answer["nodes"][0])


def test_numbers():
    """numbers of every make: plain, null, sentinels, in words, {set, infinite, number}"""
    def limit(value):
        text = json.dumps({"meta": {"Slurm": {"release": "x"}}, "partitions": [
            {"name": "p", "maximums": {"time": "@"}}]}).replace('"@"', value)
        return view(text)["partitions"][0]["max_time_s"]
    check(limit("60") == 3600, "plain")
    for value in ("null", "4294967294", "4294967295", "18446744073709551614", '"INFINITE"',
                  "Infinity", "NaN", "-Infinity", '{"set":false,"infinite":false,"number":60}',
                  '{"set":true,"infinite":true,"number":60}',
                  '{"number":60,"set":true,"infinite":true}', '"soon"', "[]", "true"):
        check(limit(value) is None, "%s is %r" % (value, limit(value)))
    for value in ('{"set":true,"infinite":false,"number":60}',
                  '{"number":60,"infinite":false,"set":true}', '"60"'):
        check(limit(value) == 3600, value)


def test_grouped():
    """a node under several partitions or rows is one node, and never more eligible for it"""
    rows = [{"node": {"state": state}, "nodes": {"nodes": names},
             "partition": {"name": part}} for state, names, part in (
                 (["IDLE"], ["a", "b"], "p"), (["IDLE"], ["a"], "q"),
                 (["IDLE", "DRAIN"], ["b"], "q"), (["MIXED"], ["c"], "p"),
                 (["IDLE"], ["c"], "q"), (["IDLE"], [], "r"))]
    answer = view(json.dumps({"meta": {"Slurm": {"release": "23.02.5"}}, "sinfo": rows}))
    check(reasons(answer) == {"a": "", "b": "DRAIN", "c": "UNKNOWN"}, "%r" % reasons(answer))
    check(answer["nodes"][0]["partitions"] == ["p", "q"], "%r" % answer["nodes"][0])


def test_cut():
    """an answer that was cut off at any byte is no view, and nothing in it is eligible"""
    texts = [rest([node("a", "IDLE"), node("b", "IDLE", "DRAIN", reservation="x")]),
             "NodeName=a State=IDLE+DRAIN Partitions=x\nNodeName=b State=IDLE+RESERVED x=y\n"]
    for text in texts:
        for n in range(0, len(text) - 1):
            at_line = text[0] == "N" and text[:n].endswith("\n")
            answer = view(text[:n], want=0 if at_line else UNREAD)
            for one in answer["nodes"]:
                check(not one["eligible"], "cut at %d: %r" % (n, one))


def test_cut_reservations():
    """a reservation that was cut off is no view: its nodes may be the missing part"""
    whole = ("ReservationName=r StartTime=2026-01-01T00:00:00 EndTime=2026-01-02T00:00:00\n"
             "   Nodes=c[1-4] NodeCnt=4 Flags=MAINT\n   Users=root Accounts=(null)")
    check(view(whole)["reservations"][0]["nodes"] == "c[1-4]", "the whole one is refused")
    for n in range(1, whole.index("Users=")):
        view(whole[:n], want=UNREAD)
    view("PartitionName=p\n   Nodes=c[1-", want=UNREAD)


def test_text_of_jobs():
    """jobs are not read from text, where a job's name could forge another's record"""
    answer = view("JobId=7 JobName=x UserId=root(0) JobState=RUNNING NodeList=c1 "
                  "UserId=eve(1001) JobState=PENDING\n", want=UNREAD)
    check(answer["jobs"] == [], "%r" % answer["jobs"])


def test_errors():
    """errors beside an empty list are no empty cluster; beside records they are shown"""
    trouble = [{"description": "d", "error": "e", "error_number": 1007, "source": "s()"}]
    answer = view(rest([], errors=trouble), want=UNREAD)
    check(answer["errors"] == ["d: e (s())"], "%r" % answer["errors"])
    answer = view(rest([node("a", "IDLE")], errors=["plain"]))
    check(answer["errors"] == ["plain"], "%r" % answer["errors"])
    check(view(rest([]))["nodes"] == [], "an empty list is an answer")
    answer = view("slurm_load_node error: Unable to contact slurm controller\n", want=UNREAD)
    check(answer["errors"], "the sentence is not shown")


def test_garbage():
    """what is no answer of Slurm is exit code 65, with a reason"""
    whole = rest([node("a", "IDLE")])
    for text in ("", " \n \n", "<html><body>Bad gateway</body></html>", "[]", "17", "null",
                 "{}", '{"a":1}', whole + whole, whole + "x", "{" * 1000,
                 '{"nodes":' + "[" * 1000, b"\x00\x01\x02", "NODELIST STATE\na idle\n",
                 "x" * 400000, "NodeName=" + "x" * 400000, '{"nodes":[{"name":"a"'):
        answer = view(text, want=UNREAD)
        check(answer["errors"] and not any(one["eligible"] for one in answer["nodes"]),
              "%.30r: %r" % (text, answer))


def test_bad_fields():
    """a field that cannot be read spoils its record, and leaves the others"""
    answer = view(rest([
        node("a", "IDLE", cpus={"x": [1, {"y": 2}]}, boot_time="soon"),
        {"state": ["IDLE"]}, "text", 5, None, [], node("b", "IDLE", partitions=None),
        node("c", ["IDLE"], {"x": 1}), node("d" * 70000, "IDLE"), node("e", "IDLE"),
    ]).replace('"e"', '"e\\u00e9"').encode("latin-1"))
    got = reasons(answer)
    check(got.pop("c") != "", "c was believed")
    check(got == {"a": "", "b": "", "e\u00e9": ""}, "%r" % got)


def test_files():
    """a file that cannot be read is exit code 66; compressed ones are read"""
    with tempfile.TemporaryDirectory() as folder:
        view(path=os.path.join(folder, "absent"), want=66)
        view(path=folder, want=66)
        path = os.path.join(folder, "answer.gz")
        with gzip.open(path, "wb") as file:
            file.write(rest([node("a", "IDLE")]).encode())
        check(reasons(view(path=path)) == {"a": ""}, "compressed")
        for n in (os.path.getsize(path) - 4, 40):  # without its last word; half of it
            os.truncate(path, n)
            check(not any(reason == "" for reason in reasons(view(path=path, want=UNREAD))
                          .values()), "cut to %d bytes: believed" % n)
    with open("/dev/full", "w") as full:
        done = subprocess.run([program("mallectld"), "--view", "-"],
                              input=rest([]).encode(), stdout=full, stderr=subprocess.PIPE)
    check(done.returncode == 74, "/dev/full: exit code %d" % done.returncode)


CAPTURED = [test_small, test_large, test_jobs, test_refused, test_others,
            test_none_forgotten, test_cut_captured]
MADE = [test_words, test_suffixes, test_numbers, test_grouped, test_cut, test_cut_reservations,
        test_text_of_jobs, test_errors,
        test_garbage, test_bad_fields, test_files]

if __name__ == "__main__":
    if not os.path.isdir(DATA):
        print("skip - captured answers of Slurm are not there: %s" % os.path.relpath(DATA))
        CAPTURED = []
    sys.exit(run(CAPTURED + MADE))
