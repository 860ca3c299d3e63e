#!/usr/bin/env python3
"""agent_peer.py - a daemon and a worker for tests of malle-agent.

Both speak the real protocol: a header (magic, version, type, length, id), JSON,
and after one NUL byte raw bytes.  As a module it is the daemon's side: Daemon, Agent.
As a program it is a worker, whose habits come from its environment:

    TEST_TRAITS  words: stubborn (ignores SIGTERM), orphan (leaves a process that
                 has shed its parent), step=N (exit at step N), code=N (with N),
                 finish=N (all samples are consumed at step N), chatty
"""
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

MAGIC = 0x4D414C4C
HEADER = struct.Struct("!IHHII")
TYPES = {
    "hello": 1, "welcome": 2, "ok": 3, "refuse": 4, "ping": 5, "pong": 6,
    "job.output": 14, "agent.hello": 50, "agent.world": 51, "agent.ready": 52,
    "node.notice": 53, "node.release": 54, "node.released": 55,
    "world.start": 60, "world.started": 61, "world.ready": 62, "world.go": 63,
    "world.progress": 64, "world.propose": 65, "world.answer": 66,
    "world.commit": 67, "world.withdraw": 68, "world.left": 69, "world.kill": 70,
    "world.exited": 71, "state.saved": 75, "state.drop": 76, "rsh.request": 80,
    "rsh.start": 81, "rsh.exited": 82, "rsh.hangup": 83, "state.fetch": 90,
    "state.data": 91, "worker.join": 100, "worker.world": 101,
    "worker.ready": 102, "worker.go": 103, "worker.progress": 104,
    "worker.propose": 105, "worker.answer": 106, "worker.commit": 107,
    "worker.withdraw": 108, "worker.saved": 109, "worker.leave": 110,
}
NAMES = {number: name for name, number in TYPES.items()}


class Message(dict):
    """A body, with name, id and raw beside it."""
    name, id, raw = "", 0, b""


class Gone(Exception):
    """The peer closed the connection."""


class Link:
    """One connection; messages in order, or the next of some names."""

    def __init__(self, sock):
        self.sock, self.bytes, self.waiting = sock, b"", []

    def send(self, name, id_=0, raw=None, **body):
        data = json.dumps(body).encode()
        if raw is not None:
            data += b"\0" + raw
        self.sock.sendall(HEADER.pack(MAGIC, 1, TYPES[name], len(data), id_) + data)

    def _take(self):
        if len(self.bytes) < HEADER.size:
            return None
        magic, _, kind, size, id_ = HEADER.unpack(self.bytes[:HEADER.size])
        assert magic == MAGIC
        if len(self.bytes) < HEADER.size + size:
            return None
        body = self.bytes[HEADER.size:HEADER.size + size]
        self.bytes = self.bytes[HEADER.size + size:]
        text, _, raw = body.partition(b"\0")
        msg = Message(json.loads(text or b"{}"))
        msg.name, msg.id, msg.raw = NAMES.get(kind, str(kind)), id_, raw
        return msg

    def read(self, limit):
        """Take in what comes within limit seconds: True if anything did."""
        ready, _, _ = select.select([self.sock], [], [], max(limit, 0))
        if not ready:
            return False
        data = self.sock.recv(1 << 20)
        if not data:
            raise Gone()
        self.bytes += data
        while True:
            msg = self._take()
            if msg is None:
                return True
            self.waiting.append(msg)

    def poll(self):
        """The next message, or None."""
        while not self.waiting and self.read(0):
            pass
        return self.waiting.pop(0) if self.waiting else None

    def expect(self, *names, limit=10, **body):
        """The next message of these names with these fields; others are dropped."""
        end = time.monotonic() + limit
        while True:
            while self.waiting:
                msg = self.waiting.pop(0)
                if msg.name in names and all(msg.get(k) == v for k, v in body.items()):
                    return msg
            if time.monotonic() > end:
                raise AssertionError(f"no {'/'.join(names)} {body} within {limit} s")
            self.read(end - time.monotonic())

    def close(self):
        self.sock.close()


class Daemon:
    """Listens like mallectld."""

    def __init__(self, path, instance="first"):
        self.path, self.instance = path, instance
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(path)
        self.sock.listen(16)

    def accept(self, limit=10, refuse=None):
        """An agent: its link, after hello and all that it tells (link.told)."""
        self.sock.settimeout(limit)
        link = Link(self.sock.accept()[0])
        assert link.expect("hello")["role"] == "agent"
        link.send("welcome", program="test", instance=self.instance)
        link.hello = link.expect("agent.hello")
        if refuse:
            link.send("refuse", link.hello.id, code=77, text=refuse)
            return link
        link.send("ok", link.hello.id)
        link.told = []
        while True:
            msg = link.expect("agent.world", "world.left", "world.exited",
                              "state.saved", "job.output", "agent.ready")
            if msg.name == "agent.ready":
                return link
            link.told.append(msg)

    def close(self):
        self.sock.close()
        if os.path.exists(self.path):
            os.unlink(self.path)


class Agent:
    """A real malle-agent for node `node`, in a directory below `root`."""

    def __init__(self, root, node="n1", **env):
        self.node, self.claim = node, f"claim-{node}-{os.getpid()}"
        self.rundir = os.path.join(root, node)
        self.shm = os.path.join(root, "shm")
        os.makedirs(self.shm, exist_ok=True)
        self.log = open(os.path.join(root, node + ".log"), "ab")
        program = os.path.join(os.environ.get("MALLE_BUILD", "build"), "bin/malle-agent")
        full = {"PATH": os.environ["PATH"], "HOME": "/", "SLURM_PROCID": "7",
                "SLURM_JOB_ID": "1", "MALLE_CTLD": os.path.join(root, "ctld.sock"),
                "MALLE_NODE": node, "MALLE_CLAIM": self.claim,
                "MALLE_RUNDIR": self.rundir, "MALLE_SHM": self.shm,
                "MALLE_LOG": "debug", "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")}
        full.update(env)
        self.process = subprocess.Popen([os.path.abspath(program)], env=full,
                                        stderr=self.log, cwd="/")

    def wait(self, limit=10):
        """Its exit code."""
        return self.process.wait(limit)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Relay:
    """What mallectld does for remote starts, between the links of several agents."""

    def __init__(self, links):
        self.links, self.sessions, self.last = links, {}, 0
        self.heard = {node: [] for node in links}

    def _request(self, node, msg):
        self.last += 1
        self.sessions[self.last] = (node, msg.id, msg["node"])
        self.links[msg["node"]].send("rsh.start", job=msg["job"], session=self.last,
                                     generation=msg["generation"], argv=msg["argv"])
        self.links[node].send("ok", msg.id)

    def _hear(self, node, msg):
        if msg.name == "rsh.request":
            self._request(node, msg)
        elif msg.name == "rsh.exited":
            origin, id_, _ = self.sessions.pop(msg["session"], (None, 0, None))
            if origin in self.links:
                self.links[origin].send("rsh.exited", id_, **msg)
        elif msg.name == "rsh.hangup":
            for session, (origin, id_, target) in self.sessions.items():
                if (origin, id_) == (node, msg.id) and target in self.links:
                    self.links[target].send("rsh.hangup", session=session)
        else:
            self.heard[node].append(msg)

    def turn(self):
        select.select([link.sock for link in self.links.values()], [], [], 0.05)
        for node, link in self.links.items():
            while (msg := link.poll()) is not None:
                self._hear(node, msg)

    def until(self, condition, what, limit=20):
        end = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < end, f"waited {limit} s for {what}"
            self.turn()

    def all(self, nodes, name, **body):
        """Wait until each of the nodes has said this."""
        def said(node):
            return any(msg.name == name and all(msg.get(k) == v for k, v in body.items())
                       for msg in self.heard[node])
        self.until(lambda: all(said(node) for node in nodes), f"{name} {body}")

    def send(self, nodes, name, **body):
        for node in nodes:
            self.links[node].send(name, **body)

    def last_of(self, node, name):
        return [msg for msg in self.heard[node] if msg.name == name][-1]


def start_world(link, root, job="j1", generation=1, nodes=("n1",), nproc=1, argv=None,
                traits="", launcher="env", **more):
    """Order a world of these workers."""
    body = {"job": job, "generation": generation, "world_nodes": list(nodes),
            "nproc": nproc, "restarts": 0, "launcher": launcher, "mode": "swap",
            "argv": argv or [sys.executable, "-B", os.path.abspath(__file__)],
            "env": ["PATH=" + os.environ["PATH"], "TEST_TRAITS=" + traits,
                    "SLURM_PROCID=3", "RANK=99"],
            "cwd": root, "min_nodes": 1, "max_nodes": 8,
            "spool": os.path.join(root, "spool")}
    body.update(more)
    os.makedirs(body["spool"], exist_ok=True)
    link.send("world.start", **body)


def processes_of(agent):
    """Pids of live processes whose environment names this agent's claim; not its own."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == agent.process.pid:
            continue
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"MALLE_CLAIM={agent.claim}".encode() in file.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass
    return found


class Scene:
    """A directory, a daemon, and agents; everything is gone at its end."""

    def __init__(self, nodes=("n1",), **env):
        self.root = tempfile.mkdtemp(prefix="malle-t.")
        self.daemon = Daemon(os.path.join(self.root, "ctld.sock"))
        self.agents = {}
        self.links = {}
        for node in nodes:
            self.agents[node] = Agent(self.root, node, **env)
            link = self.daemon.accept()
            self.links[link.hello["node"]] = link
        self.agent, self.link = self.agents[nodes[0]], self.links[nodes[0]]

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for agent in self.agents.values():
            agent.end()
            wait_for(lambda a=agent: not processes_of(a), "its workers to die with it")
        self.daemon.close()
        if kind:
            for node in self.agents:
                with open(os.path.join(self.root, node + ".log"),
                          encoding="utf-8", errors="replace") as log:
                    sys.stderr.write("".join(log.readlines()[-40:]))
        shutil.rmtree(self.root)

    def restart_daemon(self, instance):
        """Gone, and back as another one."""
        self.daemon.close()
        for link in self.links.values():
            link.close()
        self.daemon = Daemon(os.path.join(self.root, "ctld.sock"), instance)

    def adopt(self):
        self.link = self.daemon.accept()
        self.links = {self.link.hello["node"]: self.link}
        return self.link.told


def wait_for(condition, what, limit=10):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"waited {limit} s for {what}"
        time.sleep(0.01)


def children_of(parent):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            if int(fields[1]) == parent and fields[0] != "Z":
                found.append(int(pid))
        except OSError:
            pass
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def run_cases(cases):
    """Run those named on the command line, or all.  An exit code."""
    wanted, failed = sys.argv[1:], 0
    for case in cases:
        if wanted and case.__name__ not in wanted:
            continue
        try:
            case()
            print(f"ok - {case.__doc__}", flush=True)
        except (AssertionError, Gone, OSError, KeyError, IndexError,
                subprocess.TimeoutExpired):
            failed += 1
            traceback.print_exc()
            print(f"not ok - {case.__doc__}", flush=True)
    return 1 if failed else 0


# --- the worker ---------------------------------------------------------------

class Worker:
    """Trains nothing, at twenty steps of 20 ms to the fifth of a second."""

    def __init__(self):
        self.traits = dict((word.partition("=")[::2]) for word in
                           os.environ.get("TEST_TRAITS", "").split())
        self.rank = int(os.environ["RANK"])
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.job, self.generation = os.environ["MALLE_JOB_ID"], os.environ["MALLE_GENERATION"]
        self.step, self.state_dir = 0, ""
        self.proposal, self.leave_at, self.committed = 0, None, False
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(os.environ["MALLE_SOCKET"])
        self.link = Link(sock)

    def join(self):
        self.link.send("hello", role="worker", program="test worker")
        self.link.expect("welcome")
        self.link.send("worker.join", 1, job=self.job, generation=int(self.generation),
                       rank=self.rank, local_rank=self.local_rank, pid=os.getpid())
        world = self.link.expect("worker.world")
        self.state_dir = world["state_dir"]
        assert world["world_size"] == int(os.environ["WORLD_SIZE"])
        self.link.send("worker.ready")
        go = self.link.expect("worker.go", limit=60)
        if "state" in go:
            with open(go["state"], encoding="ascii") as file:
                self.step = int(file.read().split()[0])
        print(f"rank {self.rank} goes on from {self.step} resume={go['resume']}",
              flush=True)

    def save(self):
        name, text = f"state-{self.step}", f"{self.step} {'x' * 3000000}\n"
        path = os.path.join(self.state_dir, name)
        with open(f"{self.state_dir}/.{name}.{os.getpid()}", "w", encoding="ascii") as file:
            file.write(text)
        os.rename(file.name, path)
        self.link.send("worker.saved", step=self.step, cursor=self.step * 8, file=name,
                       bytes=len(text))

    def hear(self, msg):
        if msg.name == "worker.propose":
            self.proposal, agreed = msg["proposal"], self.step < msg["step"]
            self.leave_at, self.committed = (msg["step"] if agreed else None), False
            self.link.send("worker.answer", proposal=self.proposal, agreed=agreed,
                           step=self.step)
        elif msg.name == "worker.commit" and msg["proposal"] == self.proposal:
            self.committed = True
        elif msg.name == "worker.withdraw" and msg["proposal"] == self.proposal:
            self.leave_at = None

    def leave(self, finished):
        if self.local_rank == 0:
            self.save()
        self.link.send("worker.leave", step=self.step, cursor=self.step * 8,
                       t_s=time.time(), finished=finished)
        sys.exit(0)

    def train(self):
        while True:
            time.sleep(0.01)
            while (msg := self.link.poll()) is not None:
                self.hear(msg)
            if self.leave_at is not None and self.step >= self.leave_at:
                if self.committed:
                    self.leave(False)
                continue
            self.step += 1
            if self.local_rank == 0:
                self.link.send("worker.progress", step=self.step, cursor=self.step * 8,
                               t_s=time.time(), step_s=0.01)
                if self.step % 20 == 0:
                    self.save()
            if self.step == int(self.traits.get("finish", -1)):
                self.leave(True)
            if self.step == int(self.traits.get("step", -1)):
                sys.exit(int(self.traits.get("code", 0)))


def leave_an_orphan():
    """A process that has shed its parent, its session and its environment."""
    script = "import time\nwhile True: time.sleep(60)"
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(sys.executable, [sys.executable, "-S", "-c", script], {})
        os._exit(0)
    os.wait()


def main():
    worker = Worker()
    if "stubborn" in worker.traits:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "orphan" in worker.traits:
        leave_an_orphan()
    if "env" in worker.traits:
        print("\n".join(sorted(f"{k}={v}" for k, v in os.environ.items())), flush=True)
    if "chatty" in worker.traits:
        for i in range(20000):
            print(f"line {i} " + "y" * 90)
        print("the last line", flush=True)
    try:
        worker.join()
        worker.train()
    except Gone:
        sys.exit(1)


if __name__ == "__main__":
    main()
