#!/usr/bin/env python3
"""The real trainer on real MPI, handed from world to world by a pretended agent.

No daemon and no agent: this speaks the worker protocol itself, and so shows
libmalle, its MPI glue and the example alone.
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

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../scripts/lib"))
from malle_tap import check, run

BUILD = os.environ.get("MALLE_BUILD", "build")
DATA = "/usr/share/datasets/fashion-mnist"
LIMIT_S = 60
SAMPLES = 180000
HEADER = struct.Struct(">IHHII")
MAGIC = 0x4D414C4C
WELCOME, WORLD, GO, PROPOSE, COMMIT = 2, 101, 103, 105, 107
HELLO, JOIN, READY, PROGRESS, ANSWER, SAVED, LEAVE = 1, 100, 102, 104, 106, 109, 110


class Worker:
    """One connection: what came, by type, the newest of each."""

    def __init__(self, sock):
        self.sock, self.bytes, self.said, self.gone = sock, b"", {}, False

    def send(self, kind, **body):
        text = json.dumps(body).encode()
        self.sock.sendall(HEADER.pack(MAGIC, 1, kind, len(text), 0) + text)

    def take(self):
        try:
            got = self.sock.recv(65536)
        except ConnectionResetError:
            got = b""
        self.gone = not got
        self.bytes += got
        while len(self.bytes) >= HEADER.size:
            magic, version, kind, size, _ = HEADER.unpack_from(self.bytes)
            check((magic, version) == (MAGIC, 1), "a frame that is none")
            if len(self.bytes) < HEADER.size + size:
                break
            body = json.loads(self.bytes[HEADER.size:HEADER.size + size])
            self.bytes = self.bytes[HEADER.size + size:]
            self.said[kind] = body
            if kind == HELLO:
                self.send(WELCOME, program="pretended", instance="1")


class World:
    """A generation: mpirun with n ranks of the trainer, and their connections."""

    running = []

    def __init__(self, place, generation, n):
        self.place, self.n, self.workers = place, n, []
        self.path = os.path.join(place, "agent%d" % generation)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        env = dict(os.environ, MALLE_SOCKET=self.path, MALLE_JOB_ID="j1",
                   MALLE_GENERATION=str(generation), MALLE_RESTART_COUNT="0",
                   MALLE_LEDGER=os.path.join(place, "ledger"), OPENBLAS_NUM_THREADS="1",
                   OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.mpirun = subprocess.Popen(
            ["mpirun", "--oversubscribe", "-n", str(n), BUILD + "/bin/fashion_mpi",
             "--hidden", "64", "--max-samples", str(SAMPLES)],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        World.running.append(self.mpirun)

    def until(self, condition, what):
        end = time.monotonic() + LIMIT_S
        while not condition():
            check(time.monotonic() < end, "no " + what)
            socks = {w.sock: w for w in self.workers if not w.gone}
            for ready in select.select([self.listener, *socks], [], [], 0.1)[0]:
                if ready is self.listener:
                    self.workers.append(Worker(self.listener.accept()[0]))
                    continue
                worker = socks[ready]
                worker.take()
                if JOIN in worker.said and WORLD not in worker.said:
                    worker.said[WORLD] = worker.said[JOIN]
                    worker.send(WORLD, world_size=self.n, state_dir=self.place,
                                replica_s=0.1)

    def all_said(self, kind):
        return len(self.workers) == self.n and all(kind in w.said for w in self.workers)

    def go(self, state=None):
        self.until(lambda: self.all_said(READY), "ready of all")
        self.workers.sort(key=lambda w: w.said[JOIN]["rank"])
        for worker in self.workers:
            first = {"state": state} if state and worker is self.workers[0] else {}
            worker.send(GO, resume=state is not None, **first)

    def step(self):
        return self.workers[0].said.get(PROGRESS, {}).get("step", 0)

    def saved(self):
        return self.workers[0].said.get(SAVED)

    def agree(self, verdict):
        """All leave at one step: that step, and the file with its state."""
        number = 0
        while True:
            number += 1
            at = self.step() + 20 * number
            for worker in self.workers:
                worker.said.pop(ANSWER, None)
                worker.send(PROPOSE, proposal=number, step=at, verdict=verdict)
            self.until(lambda: self.all_said(ANSWER), "answers")
            if all(w.said[ANSWER]["agreed"] for w in self.workers):
                break
        for worker in self.workers:
            worker.send(COMMIT, proposal=number)
        self.until(lambda: self.all_said(LEAVE), "leave of all")
        steps = {w.said[LEAVE]["step"] for w in self.workers}
        check(steps == {at}, "they left at %s, not at %d" % (steps, at))
        check(self.saved()["step"] == at, "no state of that step")
        return at, os.path.join(self.place, self.saved()["file"])

    def end(self):
        self.listener.close()
        out, err = self.mpirun.communicate(timeout=LIMIT_S)
        World.running.remove(self.mpirun)
        return self.mpirun.returncode, out, err


def audit(place):
    done = subprocess.run([BUILD + "/bin/malle-ledger", "check", "--json", place + "/ledger"],
                          stdout=subprocess.PIPE, text=True, check=False)
    report = json.loads(done.stdout)
    check(done.returncode == 0, "the ledger says %s" % done.stdout)
    check(report["finished"] and report["samples"] == SAMPLES, "not all: %s" % done.stdout)
    return report


def in_place(test):
    def wrapped():
        place = tempfile.mkdtemp(prefix="malle-worlds.")
        os.mkdir(place + "/ledger")
        try:
            test(place)
        finally:
            for mpirun in World.running:  # of a test that failed
                mpirun.kill()
                mpirun.communicate()
            World.running.clear()
            shutil.rmtree(place)
    wrapped.__doc__, wrapped.__name__ = test.__doc__, test.__name__
    return wrapped


def accuracy(out):
    return float(out.split()[out.split().index("accuracy") + 1])


@in_place
def handed_on(place):
    """worlds of 2, 3 and 1 ranks train one model, every sample once"""
    world, state, before = World(place, 1, 2), None, 0
    for generation, ranks in ((2, 3), (3, 1)):
        world.go(state)
        world.until(lambda: world.step() > before, "step")
        before, state = world.agree("rescale")
        code, out, err = world.end()
        check((code, out) == (0, ""), "a world left with %d: %s%s" % (code, out, err))
        world = World(place, generation, ranks)
    world.go(state)
    world.until(lambda: world.all_said(LEAVE), "end")
    check(world.workers[0].said[LEAVE]["finished"], "not finished")
    code, out, err = world.end()
    check(code == 0 and accuracy(out) > 0.84, "the end: %d %s%s" % (code, out, err))
    report = audit(place)
    check(report["redone_steps"] == 0 and report["generations"] == 3, str(report))


@in_place
def lost(place):
    """a rank killed in the middle costs the steps since the replica, no sample"""
    world = World(place, 1, 3)
    world.go()
    world.until(lambda: world.saved() and world.step() > world.saved()["step"] + 3,
                "replica, and steps after it")
    os.kill(world.workers[2].said[JOIN]["pid"], signal.SIGKILL)
    world.until(lambda: all(w.gone for w in world.workers), "end of all connections")
    code, _, _ = world.end()
    check(code != 0, "a world without a rank ended well")
    state = os.path.join(place, world.saved()["file"])
    world = World(place, 2, 2)
    world.go(state)
    world.until(lambda: world.all_said(LEAVE), "end")
    code, out, err = world.end()
    check(code == 0 and accuracy(out) > 0.84, "the end: %d %s%s" % (code, out, err))
    check(audit(place)["redone_steps"] > 0, "no step was done again")


@in_place
def refused(place):
    """a state that is damaged ends the world in one line and with a code"""
    state = place + "/state"
    with open(state, "wb") as file:
        file.write(b"MALLE-ST" + bytes(500))
    world = World(place, 1, 2)
    world.go(state)
    code, out, err = world.end()
    check(code == 70 and out == "", "it ended with %d: %s" % (code, out))
    check(state in err and "version 0, this is 1" in err, err)


if not os.path.isdir(DATA):
    print("ok - worlds of the trainer # SKIP no data set in %s" % DATA)
    sys.exit(0)
sys.exit(run([handed_on, lost, refused]))
