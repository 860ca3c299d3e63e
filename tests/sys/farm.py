"""farm.py - mallectld with fake agents, for tests of what it decides.

A Farm is a daemon of its own with static nodes whose agents are fake_agent.py.
Tests say what agents shall do wrong, wait for conditions, and at the end the
farm looks through its journal and the agents' logs for what must never be:

    a node in worlds of two jobs, two open transactions of a job, generations
    that do not ascend, an order to load a state that nobody has.
"""

import json
import os
import signal
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../scripts/lib"))
sys.path.insert(0, HERE)
from fake_agent import Link
from malle_site import Site
from malle_tap import check

LIMIT_S = 8
EVERY_S = 0.004


def wait_for(what, condition, limit_s=LIMIT_S):
    """Wait until condition() is true; its value."""
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("waited %g s for %s" % (limit_s, what))
        time.sleep(EVERY_S)


class Client:
    """A connection of a user's program."""

    def __init__(self, path):
        self.link, self.last = Link(path), 0
        self.link.sock.settimeout(10)
        self.link.send("hello", {"role": "client", "program": "test"})
        while not self.link.read():
            pass

    def ask(self, name, body):
        self.last += 1
        self.link.send(name, body, self.last)
        while True:
            for got, answer, id_ in self.link.read():
                if id_ == self.last:
                    return got, answer


class Farm:
    def __init__(self, nodes=3, script=None, start=True, **options):
        settings = {
            "backend": "static", "nodes": "n[1-%d]" % nodes, "node_cpus": 0.0,
            "agent": os.path.join(HERE, "fake_agent.py"), "probe": False,
            "solver": "greedy", "settle_s": 0.02, "min_interval_s": 0.1,
            "prepare_limit_s": 0.6, "replica_s": 0.1, "grace_s": 2.0, "log_level": "debug",
        }
        settings.update(options)
        keep = bool(os.environ.get("MALLE_KEEP"))
        self.site = Site(settings, keep=keep)
        self.client = None
        self.records, self.journal_at = [], 0
        self.logs = {}
        self.script = script or {}
        self.write_script()
        if start:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, why, trace):
        try:
            if kind is None:
                self.audit()
        except BaseException:
            kind = True
            raise
        finally:
            if kind and self.site.keep:
                print("# kept %s" % self.site.dir)
            self.close()

    # --- the daemon -----------------------------------------------------------------

    def start(self):
        import subprocess
        from malle_site import program
        with open(self.site.path("ctld.log"), "ab") as log:
            self.site.daemon = subprocess.Popen(
                [program("mallectld"), "-c", self.site.path("malle.conf")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.site.dir)
        wait_for("the daemon", self.connects, 10)

    def connects(self):
        if self.site.daemon.poll() is not None:
            raise AssertionError("mallectld ended with %d: %s" % (
                self.site.daemon.returncode, self.site.read("ctld.log")[-1500:]))
        try:
            self.client = Client(self.site.socket)
        except OSError:
            return False
        return True

    def crash(self):
        """kill -9 of the daemon."""
        self.client.link.close()
        self.site.kill_daemon(signal.SIGKILL)

    def restart(self):
        self.crash()
        self.start()

    def ask(self, message, **body):
        """The answer's name and body; a daemon that died is a failed test."""
        try:
            return self.client.ask(message, body)
        except OSError as why:
            self.site.daemon.wait(5)
            raise AssertionError("mallectld died with %s (%s): %s" % (
                self.site.daemon.returncode, why, self.site.read("ctld.log")[-1500:]))

    def order(self, message, **body):
        got, answer = self.ask(message, **body)
        check(got == "ok", "%s: %s" % (message, answer))

    # --- jobs -------------------------------------------------------------------------

    def submit(self, nnodes="1:3", name="job", **habits):
        low, _, high = nnodes.partition(":")
        got, answer = self.ask(
            "job.submit", name=name, argv=["train"], env=["FAKE=" + json.dumps(habits)],
            cwd="/", min_nodes=int(low), max_nodes=int(high or low), nproc=2, mode="swap",
            launcher="mpi", spool=self.site.path("spool"))
        check(got == "job.accepted", "%s %s" % (got, answer))
        return answer["job"]

    def job(self, job="1"):
        return self.ask("status.get", what="job", id=job)[1]["data"]["job"]

    def nodes(self):
        nodes = self.ask("status.get", what="nodes")[1]["data"]["nodes"]
        return {node["name"]: node for node in nodes}

    def when(self, what, condition, job="1", limit_s=LIMIT_S):
        """Wait for a condition on the job's status; the status."""
        last = {}

        def look():
            last.update(self.job(job))
            return condition(last) and last
        try:
            return wait_for(what, look, limit_s)
        except AssertionError as why:
            raise AssertionError("%s; job %s is %s" % (why, job, {
                key: last.get(key) for key in ("state", "reason", "generation", "nodes", "step",
                                               "restarts", "transaction")}))

    def trains(self, nodes, job="1", limit_s=LIMIT_S):
        """Wait until it trains on so many nodes, with nothing under way, and moves on."""
        first = []

        def moved(now):
            if now["state"] != "running" or now["transaction"] or now["n_nodes"] != nodes:
                first.clear()
                return False
            first.append(now["step"])
            return now["step"] > first[0]
        return self.when("job %s to train on %d nodes" % (job, nodes), moved, job, limit_s)

    def phase(self, kind, phase, job="1", limit_s=LIMIT_S):
        """Wait until a transaction of this kind is in this phase."""
        def there(now):
            change = now["transaction"]
            return change and change["kind"] == kind and change["phase"] == phase
        return self.when("%s to %s" % (phase, kind), there, job, limit_s)

    def ended(self, code, job="1", limit_s=LIMIT_S):
        now = self.when("job %s to end" % job, lambda j: j["state"] == "ended", job, limit_s)
        check(now["exit_code"] == code, "job %s ended with %d (%s), not %d" % (
            job, now["exit_code"], now["reason"], code))
        return now

    def closed(self, kind, result, job="1", n=1, limit_s=LIMIT_S):
        """Wait until the journal has n closed transactions like this; the last."""
        def there():
            found = self.journal("rescale", job=job, kind=kind, result=result)
            return found[n - 1] if len(found) >= n else None
        return wait_for("%s of job %s to be %s" % (kind, job, result), there, limit_s)

    def are_there(self, *names):
        """Wait until these nodes are there and nobody's."""
        wait_for("nodes %s" % (names,), lambda: all(
            self.nodes()[name]["state"] == "idle" for name in names))

    def all_free(self, limit_s=LIMIT_S):
        """Wait until every node is there and nobody's."""
        wait_for("nodes to be free", lambda: all(
            node["state"] == "idle" and not node["job"] for node in self.nodes().values()),
            limit_s)

    # --- agents -------------------------------------------------------------------------

    def write_script(self):
        with open(self.site.path("script.new"), "w") as file:
            json.dump(self.script, file)
        os.rename(self.site.path("script.new"), self.site.path("script.json"))

    def tell(self, node, do, **order):
        """A datagram to the node's agent; False: there is none now."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            sock.sendto(json.dumps(dict(order, do=do)).encode(),
                        self.site.path("run", node, "control"))
        except OSError:
            return False
        finally:
            sock.close()
        return True

    def set(self, node, **habits):
        """Habits of a node's agent, also of those that come after it."""
        self.next_agent(node, **habits)
        for name in [node] if node != "*" else self.site_nodes():
            self.tell(name, "set", **habits)

    def next_agent(self, node, **habits):
        """Habits of the agents that come after the present one."""
        self.script.setdefault(node, {}).update(habits)
        self.write_script()

    def come(self, *names):
        """Agents that were told to wait with their hello."""
        for node in names:
            self.set(node, hello=True)
            wait_for("agent of %s" % node, lambda: self.tell(node, "set", hello=True))

    def agent_pid(self, node):
        return wait_for("an agent on %s" % node, lambda: self.nodes()[node]["agent_pid"])

    def kill_agent(self, node, signo=signal.SIGKILL):
        os.kill(self.agent_pid(node), signo)

    def heard(self, node, name=None, kind="got", **fields):
        """What the node's agents have heard (kind "sent": said), in order."""
        path = self.site.path("run", node + ".log")
        at, entries = self.logs.get(node, (0, []))
        if os.path.exists(path):
            with open(path, "rb") as file:
                file.seek(at)
                data = file.read()
            whole = data[:data.rfind(b"\n") + 1]
            for line in whole.splitlines():
                try:
                    entries.append(json.loads(line))
                except ValueError:
                    entries.append({"violation": line.decode(errors="replace")})
            self.logs[node] = (at + len(whole), entries)
        return [e for e in entries if (name is None or e.get(kind) == name) and
                all(e.get(key) == value for key, value in fields.items())]

    def said(self, node, name, **fields):
        return self.heard(node, name, kind="sent", **fields)

    # --- the record -----------------------------------------------------------------------

    def journal(self, event=None, **fields):
        path = self.site.path("state/journal.jsonl")
        if os.path.exists(path):
            with open(path, "rb") as file:
                file.seek(self.journal_at)
                data = file.read()
            whole = data[:data.rfind(b"\n") + 1]
            self.journal_at += len(whole)
            self.records += [json.loads(line) for line in whole.splitlines()]
        return [r for r in self.records if (event is None or r["event"] == event) and
                all(r.get(key) == value for key, value in fields.items())]

    def audit(self):
        self.journal()
        audit_journal(self.records, self.has_exited)
        for node in self.site_nodes():
            for entry in self.heard(node):
                check("violation" not in entry, "agent of %s: %s" % (node, entry))

    def has_exited(self, node, world, t):
        """Or never began there: the order was lost with a connection."""
        of_world = {"job": world[0], "generation": world[1]}
        return not self.heard(node, "world.start", **of_world) or any(
            e["t"] <= t + 0.001 for e in self.said(node, "world.exited", **of_world))

    def site_nodes(self):
        run = self.site.path("run")
        return sorted(name[:-4] for name in os.listdir(run) if name.endswith(".log"))

    def close(self):
        if self.client:
            self.client.link.close()
        if self.site.daemon and self.site.daemon.poll() is None:
            self.site.kill_daemon(signal.SIGTERM)
            code = self.site.daemon.returncode
            check(code == 0, "mallectld ended with %d: %s" % (
                code, self.site.read("ctld.log")[-1500:]))
        for pid, _ in self.site.left_over():
            self.site.end(pid, signal.SIGKILL)
        wait_for("agents to go", lambda: not self.site.left_over())
        self.site.close()


def audit_journal(records, exited):
    """
    What must hold in every journal, restarts or not.  exited(node, world, t): the
    node's agent had said by then that no process of the world is left.
    """
    audit = Audit(exited)
    for record in records:
        getattr(audit, record["event"], lambda _: None)(record)


class Audit:
    """One method for each event of the journal that matters."""

    def __init__(self, exited):
        self.exited = exited
        self.holders = {}   # node -> worlds that may have processes on it
        self.newest = {}    # job -> generation
        self.moving = set() # jobs whose transaction is open
        self.ended = set()
        self.claims = {}    # claim -> node

    def start(self, _):
        self.moving.clear()
        for worlds in self.holders.values():  # agents tell of those of ended jobs
            worlds -= {world for world in worlds if world[0] in self.ended}

    def end(self, record):
        self.ended.add(record["job"])

    def claim(self, record):
        self.claims[record["claim"]] = record["node"]

    def claim_end(self, record):
        self.holders.pop(self.claims.get(record["claim"]), None)

    def world(self, record):
        job, generation = record["job"], record["generation"]
        before = self.newest.get(job, 0)
        check(generation == before + 1, "generation %d of job %s after %d" % (
            generation, job, before))
        check(job not in self.moving, "job %s has two open transactions" % job)
        self.newest[job] = generation
        self.moving.add(job)
        for node in record["nodes"]:
            worlds = self.holders.setdefault(node, set())
            for world in worlds:
                check(world[0] == job or self.exited(node, world, record["t"]),
                      "%s given to job %s, job %s generation %d has it" % ((node, job) + world))
            worlds.add((job, generation))

    def rescale(self, record):
        self.moving.discard(record["job"])

    def gone(self, record):
        for worlds in self.holders.values():
            worlds.discard((record["job"], record["generation"]))

    def go(self, record):
        check(record["generation"] == self.newest[record["job"]],
              "job %s: go for generation %d of %d" % (
                  record["job"], record["generation"], self.newest[record["job"]]))


# --- a transaction that stops where the test wants it -----------------------------------

# A job on n1 and n2 that grows by n3 stays in a phase by these habits.
HOLDS = {
    "prepare": ("n3", {"ready_s": 1e9}, {"ready_s": 0.01}),
    "agree": ("n2", {"answer": "none"}, {"answer": "yes"}),
    "commit": ("n2", {"leave": False}, {"leave": True}),
    "handover": ("*", {"stuck": 2}, {"stuck": 0}),
}
PHASES = list(HOLDS)


def two_and_one(n3=None, nnodes="2:3", habits=None, **options):
    """A farm whose job trains on n1 and n2; n3 has not come yet."""
    farm = Farm(script={"n3": n3 or {"hello": False}}, **options)
    try:
        farm.are_there("n1", "n2")
        farm.submit(nnodes, **(habits or {}))
        farm.trains(2)
    except BaseException:
        farm.close()
        raise
    return farm


def hold(farm, phase):
    """Let n3 come; the grow that follows stays in this phase until let_go."""
    node, bad, _ = HOLDS[phase]
    farm.set(node, **bad)
    farm.come("n3")
    farm.phase("grow", phase)


def let_go(farm, phase):
    node, _, good = HOLDS[phase]
    farm.set(node, **good)


# --- cases that wait long ------------------------------------------------------------

def each(test, sentence, values=None):
    """One case for each phase of a grow, or for each of the values."""
    def case(value):
        def body():
            test(value)
        body.__name__ = "%s_%s" % (test.__name__, value)
        body.__doc__ = sentence % value
        return body
    return [case(value) for value in values or PHASES]


def aside(test):
    """A case that waits for a limit of seconds: it runs beside the others."""
    test.aside = True
    return test


def run(tests):
    """malle_tap.run, with the long cases begun first, each in a thread of its own."""
    import threading
    import malle_tap
    wanted = [t for t in tests if not sys.argv[1:] or t.__name__ in sys.argv[1:]]
    return malle_tap.run([begin(t, threading) if hasattr(t, "aside") else t for t in wanted])


def begin(test, threading):
    failed = []

    def body():
        try:
            test()
        except BaseException as why:
            failed.append(why)

    thread = threading.Thread(target=body)
    thread.start()

    def join():
        thread.join()
        if failed:
            raise failed[0]
    join.__doc__, join.__name__ = test.__doc__, test.__name__
    return join
