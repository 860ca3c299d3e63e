#!/usr/bin/python3 -ISE
"""fake_agent.py - an agent at the protocol seam, with worlds that are made up.

mallectld starts it in place of malle-agent (option `agent`).  It says what an
agent says, but a world is a few numbers in it: no process, no training, so that
a transaction takes a hundredth of a second and every fault can be had on
demand.  What it shall do wrong is read from `script.json` beside its run
directory's parent, {"*": {...}, "n2": {...}}, else from the variable FAKE of the
job's environment (JSON), and can be changed while it runs by datagrams to the
socket `control` in its run directory:

    {"do": "set", "ready_s": 9}     change habits, see HABITS
    {"do": "notice", "grace_s": 2}  the scheduler wants the node
    {"do": "crash", "code": 3}      launchers of running worlds exit; "all": what
                                    is not a launcher as well
    {"do": "drop", "away_s": 0.1}   the connection breaks; come back after that

All that it hears and says goes to its standard error, a JSON object a line.
States are files in `states` beside the script, so that an order to load a state
which nobody has is seen: that, and a second job's world on the node, is logged as
a "violation".
"""
import heapq
import json
import os
import select
import signal
import socket
import struct
import sys
import time

HABITS = {
    "hello": True,      # False: wait with it until told
    "exit": -1,         # >= 0: exit with it at once, without a word
    "ready_s": 0.01,    # from world.start to world.ready
    "fail_s": -1,       # >= 0: the launcher exits so long after world.start,
    "fail_code": 3,     # with this, on the first node
    "stuck": 0,         # > 0: the world of this generation makes no step
    "step_s": 0.02,     # of one node; n nodes are n^0.9 times as fast
    "tick_s": 0.01,     # between two looks at what the world does
    "finish": 0,        # > 0: the training is complete at this step
    "die_step": 0,      # > 0: the launcher exits with fail_code at this step
    "answer": "yes",    # "none": silence; "no": always too late
    "no": 0,            # so many times "no" at first
    "leave": True,      # False: never, whatever was committed
    "exits": True,      # False: after leaving it does not go away by itself
    "exit_s": 0.01,     # from leaving to the end of the last process
    "exit_code": 0,     # of a launcher whose world has left
    "kill_s": 0.01,     # from world.kill to the end of the last process
    "spool_s": 0.01,    # to write a state to the spool
    "release_s": 0.0,   # from node.release to the last word
    "deaf": "",         # the connection breaks before this message is heard, once
    "away_s": 0.1,      # so long
}
CURSOR = 64             # samples a step

MAGIC = 0x4D414C4C
HEADER = struct.Struct(">IHHII")
TYPES = {
    "hello": 1, "welcome": 2, "ok": 3, "refuse": 4, "ping": 5, "pong": 6,
    "job.submit": 10, "job.accepted": 11, "job.attach": 12, "job.state": 13,
    "job.output": 14, "job.cancel": 15, "job.pause": 16, "job.resume": 17,
    "status.get": 30, "status.reply": 31,
    "agent.hello": 50, "agent.world": 51, "agent.ready": 52,
    "node.notice": 53, "node.release": 54, "node.released": 55,
    "world.start": 60, "world.started": 61, "world.ready": 62, "world.go": 63,
    "world.progress": 64, "world.propose": 65, "world.answer": 66,
    "world.commit": 67, "world.withdraw": 68, "world.left": 69,
    "world.kill": 70, "world.exited": 71, "state.saved": 75, "state.drop": 76,
}
NAMES = {number: name for name, number in TYPES.items()}


class Link:
    """One connection: whole messages out and in."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.bytes = b""

    def send(self, name, body, id_=0):
        data = json.dumps(body).encode()
        self.sock.sendall(HEADER.pack(MAGIC, 1, TYPES[name], len(data), id_) + data)

    def read(self):
        """What one recv brought: a list of (name, body, id).  OSError at the end."""
        data = self.sock.recv(1 << 20)
        if not data:
            raise ConnectionResetError("the peer hung up")
        self.bytes += data
        found = []
        while len(self.bytes) >= HEADER.size:
            magic, _, kind, size, id_ = HEADER.unpack(self.bytes[:HEADER.size])
            if magic != MAGIC:
                raise ConnectionResetError("bad magic")
            end = HEADER.size + size
            if len(self.bytes) < end:
                break
            text = self.bytes[HEADER.size:end].split(b"\0", 1)[0]
            self.bytes = self.bytes[end:]
            found.append((NAMES.get(kind, str(kind)), json.loads(text or b"{}"), id_))
        return found

    def close(self):
        self.sock.close()


class World:
    """The local part of a world, as numbers."""

    def __init__(self, agent, body):
        self.agent = agent
        self.job, self.generation = body["job"], body["generation"]
        self.nodes, self.nproc = body["world_nodes"], body["nproc"]
        self.head = self.nodes[0] == agent.node
        self.job_habits = {}
        for entry in body["env"]:
            if entry.startswith("FAKE="):
                self.job_habits = json.loads(entry[5:])
        self.phase = "starting"
        self.base_step, self.base_t = 0, 0.0
        self.proposal, self.limit, self.committed = 0, None, False
        self.ready = 0
        self.left_t_s, self.finished, self.saved = 0.0, False, False
        self.code, self.launcher = 0, False
        self.killed = False
        agent.later(self.habit("ready_s"), self.become_ready)
        if self.head and self.habit("fail_s") >= 0:
            agent.later(self.habit("fail_s"), self.launcher_exits)

    def habit(self, name):
        return self.agent.habit(name, self.job_habits)

    def is_(self, phase):
        return self.phase == phase and self.agent.worlds.get(self.key()) is self

    def key(self):
        return (self.job, self.generation)

    def send(self, name, **body):
        self.agent.send(name, dict(body, job=self.job, generation=self.generation))

    # --- coming up ------------------------------------------------------------

    def become_ready(self):
        if not self.is_("starting"):
            return
        self.phase, self.ready = "ready", self.nproc
        self.send("world.ready", ready=self.ready)

    def go(self, body):
        if self.phase != "ready":
            return
        step = body.get("state_step", 0)
        if self.head and "state_step" in body and not self.agent.state_is_there(self.job, body):
            self.agent.log(violation="no such state", body=body)
            self.launcher_exits()
            return
        self.phase = "running"
        self.base_step, self.base_t = step, time.monotonic()
        self.told_step, self.told_t = step, 0.0
        self.saved_t = time.monotonic()

    # --- training ---------------------------------------------------------------

    def step_s(self):
        return self.habit("step_s") / len(self.nodes) ** 0.9

    def step(self):
        if self.phase != "running" or self.habit("stuck") == self.generation:
            return self.base_step
        step = self.base_step + int((time.monotonic() - self.base_t) / self.step_s())
        if self.limit is not None:
            step = min(step, self.limit)
        if self.habit("finish"):
            step = min(step, self.habit("finish"))
        return step

    def rebase(self, limit):
        """Go on from here, up to the new limit (None: on and on)."""
        self.base_step, self.base_t = self.step(), time.monotonic()
        self.limit = limit

    def tick(self):
        if self.phase != "running":
            return
        now, step = time.monotonic(), self.step()
        if self.head and self.habit("die_step") and step >= self.habit("die_step"):
            self.launcher_exits()
            return
        if self.head and step > self.told_step and now - self.told_t >= 0.1:
            self.told_step, self.told_t = step, now
            self.send("world.progress", step=step, cursor=step * CURSOR, t_s=time.time(),
                      step_s=self.step_s())
        if self.agent.replica_s and now - self.saved_t >= self.agent.replica_s and \
                self.agent.node in self.nodes[:2]:
            self.saved_t = now
            self.agent.save(self.job, self.generation, step)
        if self.habit("finish") and step >= self.habit("finish"):
            self.leave(True)
        elif self.committed and step >= self.limit and self.habit("leave"):
            self.leave(False)

    def leave(self, finished):
        step = self.step()
        self.phase, self.base_step = "left", step
        self.left_t_s, self.finished = time.time(), finished
        self.saved = True
        self.agent.log(world="left", step=step)
        self.agent.save(self.job, self.generation, step, tell=False)
        self.say_left()
        if self.habit("exits"):
            self.agent.later(self.habit("exit_s"), self.end_left)

    def say_left(self):
        self.send("world.left", step=self.base_step, cursor=self.base_step * CURSOR,
                  t_s=self.left_t_s, saved=self.saved, finished=self.finished)

    def propose(self, body):
        if body["proposal"] <= self.proposal or self.committed:
            return
        self.proposal = body["proposal"]
        manner = self.habit("answer")
        if manner == "none":
            return
        agreed = self.phase == "running" and self.step() < body["step"] and manner == "yes"
        if agreed and self.agent.noes < self.habit("no"):
            self.agent.noes += 1
            agreed = False
        self.rebase(body["step"] if agreed else None)
        self.send("world.answer", proposal=self.proposal, agreed=agreed, step=self.step())

    def commit(self, body):
        if body["proposal"] == self.proposal and self.limit is not None:
            self.committed = True

    def withdraw(self, body):
        if body["proposal"] == self.proposal and not self.committed:
            self.rebase(None)

    # --- ends -------------------------------------------------------------------

    def end_left(self):
        if self.is_("left"):
            self.exited(self.habit("exit_code") if self.head else 0, self.head)

    def launcher_exits(self, code=None):
        """The first node's launcher ends; its siblings hear of it by world.kill."""
        if self.agent.worlds.get(self.key()) is self and self.phase != "exited":
            self.exited(self.habit("fail_code") if code is None else code, self.head)

    def kill(self):
        self.phase = "left" if self.phase == "left" else "exiting"
        if not self.killed:
            self.killed = True
            self.agent.later(self.habit("kill_s"), lambda: self.exited(137, self.head))

    def exited(self, code, launcher):
        if self.phase == "exited":
            return
        self.phase, self.code, self.launcher = "exited", code, launcher
        self.say_exited()

    def say_exited(self):
        if self.agent.told:
            self.agent.worlds.pop(self.key(), None)
            self.send("world.exited", code=self.code, launcher=self.launcher)

    def tell(self):
        """To a daemon that has come back."""
        phase = "exiting" if self.phase == "exited" else self.phase
        self.send("agent.world", world_nodes=self.nodes, phase=phase, ready=self.ready,
                  step=self.step(), cursor=self.step() * CURSOR)
        if self.left_t_s:
            self.say_left()
        if self.phase == "exited":
            self.say_exited()


class Agent:
    def __init__(self):
        env = os.environ
        self.node, self.claim = env["MALLE_NODE"], env["MALLE_CLAIM"]
        self.ctld, self.rundir = env["MALLE_CTLD"], env["MALLE_RUNDIR"]
        self.replica_s = float(env.get("MALLE_REPLICA_S", 0))
        self.grace_s = float(env.get("MALLE_GRACE_S", 5))
        base = os.path.dirname(os.path.dirname(self.rundir))
        self.states = os.path.join(base, "states")
        os.makedirs(self.states, exist_ok=True)
        self.habits = {}
        try:
            with open(os.path.join(base, "script.json")) as file:
                script = json.load(file)
            self.habits.update(script.get("*", {}))
            self.habits.update(script.get(self.node, {}))
        except FileNotFoundError:
            pass
        self.worlds, self.copies = {}, {}
        self.timers, self.n_timers = [], 0
        self.noes = 0
        self.link, self.told, self.instance = None, False, None
        self.away_since, self.try_at = time.monotonic(), 0.0
        self.leaving_at = float("inf")
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.control.bind(os.path.join(self.rundir, "control"))

    def habit(self, name, of_job=None):
        if name in self.habits:
            return self.habits[name]
        return (of_job or {}).get(name, HABITS[name])

    @staticmethod
    def log(**what):
        what["t"] = round(time.time(), 3)
        os.write(2, json.dumps(what).encode() + b"\n")

    def later(self, after_s, fn):
        self.n_timers += 1
        heapq.heappush(self.timers, (time.monotonic() + after_s, self.n_timers, fn))

    # --- states -------------------------------------------------------------------

    def state_path(self, job, node):
        return os.path.join(self.states, "%s.%s" % (job, node or "spool"))

    def write_state(self, job, node, step):
        path = self.state_path(job, node)
        with open(path + ".new." + self.node, "w") as file:
            json.dump({"step": step, "pid": os.getpid()}, file)
        os.rename(path + ".new." + self.node, path)

    def save(self, job, generation, step, tell=True):
        self.copies[job] = (generation, step)
        self.write_state(job, self.node, step)
        if tell:
            self.say_saved(job, False)

    def say_saved(self, job, spooled):
        generation, step = self.copies[job]
        self.send("state.saved", {"job": job, "generation": generation, "step": step,
                                  "cursor": step * CURSOR, "bytes": 1, "spooled": spooled})

    def state_is_there(self, job, body):
        """What a fetch would find: in the spool, or in memory of a living agent."""
        node = body.get("state_node")
        try:
            with open(self.state_path(job, node)) as file:
                state = json.load(file)
            if node:
                os.kill(state["pid"], 0)
        except (OSError, ValueError):
            return False
        address = "%s/sock" % os.path.join(os.path.dirname(self.rundir), node or "")
        return state["step"] == body["state_step"] and \
            (not node or body.get("state_address") == address)

    # --- the daemon -----------------------------------------------------------------

    def send(self, name, body, id_=0):
        if not self.link:
            return
        try:
            self.link.send(name, body, id_)
            if name != "world.progress":
                self.log(sent=name, **body)
        except OSError as why:
            self.lost(str(why))

    def lost(self, why):
        self.log(lost=why)
        if self.link:
            self.link.close()
        self.link, self.told = None, False
        self.away_since = time.monotonic()
        self.try_at = max(self.try_at, self.away_since + 0.03)

    def break_off(self, away_s):
        self.try_at = time.monotonic() + away_s
        self.lost("told so")

    def connect(self):
        self.try_at = time.monotonic() + 0.05
        if time.monotonic() - self.away_since > 20:
            sys.exit(69)
        try:
            self.link = Link(self.ctld)
        except OSError:
            return
        self.send("hello", {"role": "agent", "program": "fake"}, 1)

    def on_welcome(self, body, _):
        if body["instance"] != self.instance:
            self.instance = body["instance"]
            for world in self.worlds.values():  # nobody will decide them any more
                if not world.committed:
                    world.rebase(None)
                    world.proposal = 0
        self.send("agent.hello", {"node": self.node, "claim": self.claim,
                                  "pid": os.getpid(), "address": self.rundir + "/sock",
                                  "cpus": 1.0}, 2)

    def on_ok(self, _body, id_):
        if id_ != 2:
            return
        self.told = True
        for world in list(self.worlds.values()):
            world.tell()
        for job in self.copies:
            self.say_saved(job, False)
        self.send("agent.ready", {})
        if self.leaving_at < float("inf"):
            self.send("node.notice", {"grace_s": max(0, self.leaving_at - time.monotonic())})

    def on_start(self, body, _):
        for world in self.worlds.values():
            if world.job != body["job"]:
                self.log(violation="a second job", job=body["job"], has=world.job)
        if self.leaving_at < float("inf"):
            self.send("world.exited", {"job": body["job"], "generation": body["generation"],
                                       "code": 75, "launcher": body["world_nodes"][0] == self.node})
            return
        world = World(self, body)
        self.worlds[world.key()] = world
        world.send("world.started", pid=os.getpid() if world.head else 0)

    def on_kill(self, body, _):
        world = self.worlds.get((body["job"], body["generation"]))
        if world:
            world.kill()
        else:
            self.send("world.exited", {"job": body["job"], "generation": body["generation"],
                                       "code": 0, "launcher": False})

    def on_drop(self, body, _):
        if self.copies.pop(body["job"], None):
            os.unlink(self.state_path(body["job"], self.node))

    def on_release(self, body, _):
        for job in body.get("spool", []):
            if job in self.copies:
                self.later(self.habit("spool_s"), lambda job=job: self.spool(job))
        self.later(max(self.habit("release_s"), 0.005 + self.habit("spool_s")), self.go_away)

    def spool(self, job):
        if job in self.copies:
            self.write_state(job, None, self.copies[job][1])
            self.say_saved(job, True)

    def go_away(self):
        for world in list(self.worlds.values()):
            world.exited(137, world.head)
        self.send("node.released", {"clean": True, "killed": 0, "took_s": 0.0})
        sys.exit(0)

    def notice(self, grace_s):
        self.leaving_at = time.monotonic() + grace_s - 0.05
        self.send("node.notice", {"grace_s": grace_s})

    def hear(self, name, body, id_):
        if name == self.habit("deaf"):
            self.habits["deaf"] = ""
            self.break_off(self.habit("away_s"))
            raise ConnectionResetError("deaf to %s" % name)
        self.log(got=name, **{k: v for k, v in body.items() if k not in ("argv", "env")})
        orders = {
            "welcome": self.on_welcome, "ok": self.on_ok, "world.start": self.on_start,
            "world.kill": self.on_kill, "state.drop": self.on_drop,
            "node.release": self.on_release,
        }
        if name == "refuse":
            sys.exit(77)
        if name in orders:
            orders[name](body, id_)
        elif name.startswith("world."):
            world = self.worlds.get((body["job"], body["generation"]))
            if world:
                getattr(world, name[6:])(body)

    # --- the test -------------------------------------------------------------------

    def obey(self, order):
        self.log(order=order)
        do = order.pop("do")
        if do == "set":
            for world in self.worlds.values():
                world.rebase(world.limit)
            self.habits.update(order)
            if "no" in order:
                self.noes = 0
            for world in list(self.worlds.values()):
                if world.phase == "starting":
                    self.later(world.habit("ready_s"), world.become_ready)
                if world.phase == "left" and world.habit("exits"):
                    self.later(world.habit("exit_s"), world.end_left)
        elif do == "notice":
            self.notice(order["grace_s"])
        elif do == "drop":
            self.break_off(order.get("away_s", 0))
        elif do == "crash":
            for world in list(self.worlds.values()):
                if world.phase == "running" and (world.head or order.get("all")):
                    world.launcher_exits(order["code"])

    # --- the loop -------------------------------------------------------------------

    def wait_s(self):
        until = time.monotonic() + (self.habit("tick_s") if self.worlds else 0.3)
        if self.timers:
            until = min(until, self.timers[0][0])
        if not self.link and self.habit("hello"):
            until = min(until, self.try_at)
        return max(0.0, until - time.monotonic())

    def run(self):
        if self.habit("exit") >= 0:
            sys.exit(self.habit("exit"))
        signal.signal(signal.SIGTERM, lambda *_: self.notice(self.grace_s))
        while True:
            if not self.link and self.habit("hello") and time.monotonic() >= self.try_at:
                self.connect()
            socks = [self.control] + ([self.link.sock] if self.link else [])
            ready, _, _ = select.select(socks, [], [], self.wait_s())
            if self.control in ready:
                self.obey(json.loads(self.control.recv(1 << 16)))
            if self.link and self.link.sock in ready:
                try:
                    for message in self.link.read():
                        self.hear(*message)
                except OSError as why:
                    self.lost(str(why))
            while self.timers and self.timers[0][0] <= time.monotonic():
                heapq.heappop(self.timers)[2]()
            for world in list(self.worlds.values()):
                world.tick()
            if time.monotonic() > self.leaving_at:
                self.go_away()


if __name__ == "__main__":
    Agent().run()
