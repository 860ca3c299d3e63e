"""fake_ctld.py - a daemon at the protocol seam, for the faults of real ones.

A FakeCtld listens on a unix socket, speaks the frames of proto/, records what
it is told and answers by a table of functions, which a test may change: to
refuse, to stay silent, to talk garbage, to hang up.  It runs jobs of no kind;
the test says what their state and output are.
"""
import json
import os
import socket
import struct
import threading
import time

HEADER = struct.Struct(">IHHII")
MAGIC = 0x4D414C4C
NUMBERS = {
    "hello": 1, "welcome": 2, "ok": 3, "refuse": 4, "ping": 5, "pong": 6,
    "job.submit": 10, "job.accepted": 11, "job.attach": 12, "job.state": 13,
    "job.output": 14, "job.cancel": 15, "job.pause": 16, "job.resume": 17,
    "status.get": 30, "status.reply": 31, "config.get": 32, "config.reply": 33,
}
NAMES = {number: name for name, number in NUMBERS.items()}


class Timeout(AssertionError):
    pass


def wait_until(condition, what, limit_s=10):
    """Poll until condition() is true; its value."""
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Timeout("waited %g s for %s" % (limit_s, what))
        time.sleep(0.01)


def encode(name, body=None, raw=None, request=0, version=1):
    data = json.dumps(body or {}).encode()
    if raw is not None:
        data += b"\0" + raw
    return HEADER.pack(MAGIC, version, NUMBERS[name], len(data), request) + data


class Peer:
    """One accepted connection."""

    def __init__(self, ctld, sock):
        self.ctld, self.sock = ctld, sock
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def send(self, name, body=None, raw=None, request=0):
        self.send_bytes(encode(name, body, raw, request))

    def send_bytes(self, data):
        try:
            with self.lock:
                self.sock.sendall(data)
        except OSError:
            pass  # it went away: that is its right

    def read(self, size):
        data = b""
        while len(data) < size:
            piece = self.sock.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def serve(self):
        try:
            while True:
                header = HEADER.unpack(self.read(HEADER.size))
                body = self.read(header[3]).split(b"\0", 1)[0]
                name = NAMES.get(header[2], str(header[2]))
                self.ctld.take(self, name, json.loads(body), header[4])
        except (EOFError, OSError):
            self.ctld.note(self, "gone", {})

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()


class FakeCtld:
    def __init__(self, path, instance="one", job="7"):
        self.path, self.instance, self.job = path, instance, job
        self.seen = []  # (peer, name, body), in order
        self.peers = []
        self.attached = None  # the peer that followed the job last
        self.state = {"state": "waiting", "generation": 0, "nodes": "", "n_nodes": 0}
        self.data = {}  # what -> answer to status.get
        self.options = []
        self.lock = threading.Lock()
        self.answers = {
            "hello": self.on_hello,
            "ping": lambda p, b, r: p.send("pong", {"uptime_s": 65.0, "state": "ok"},
                                           request=r),
            "job.submit": self.on_submit,
            "job.attach": self.on_attach,
            "job.cancel": lambda p, b, r: p.send("ok", {}, request=r),
            "job.pause": lambda p, b, r: p.send("ok", {"text": "job paused"}, request=r),
            "job.resume": lambda p, b, r: p.send("ok", {}, request=r),
            "status.get": self.on_status,
            "config.get": lambda p, b, r: p.send(
                "config.reply", {"options": self.options}, request=r),
        }
        self.listener = socket.socket(socket.AF_UNIX)
        if os.path.exists(path):
            os.unlink(path)
        self.listener.bind(path)
        self.listener.listen(16)
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """As a daemon that is killed: nobody listens, every connection breaks."""
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        self.thread.join(5)
        self.drop()

    def drop(self):
        for peer in self.peers:
            peer.close()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.peers.append(Peer(self, sock))

    def note(self, peer, name, body):
        with self.lock:
            self.seen.append((peer, name, body))

    def take(self, peer, name, body, request):
        answer = self.answers.get(name)
        if answer:
            answer(peer, body, request)
        self.note(peer, name, body)

    # --- what a well daemon answers ---------------------------------------------

    def on_hello(self, peer, body, request):
        peer.send("welcome", {"program": "mallectld 9.9", "instance": self.instance},
                  request=request)

    def on_submit(self, peer, body, request):
        peer.send("job.accepted", {"job": self.job}, request=request)

    def on_attach(self, peer, body, request):
        self.attached = peer
        peer.send("job.state", dict(self.state, job=body["job"]), request=request)

    def on_status(self, peer, body, request):
        if body["what"] in self.data:
            peer.send("status.reply", {"data": self.data[body["what"]]}, request=request)
        else:
            peer.send("refuse", {"code": 65, "text": "job %s: there is none"
                                 % body.get("id", "")}, request=request)

    # --- what a test has it say and waits for -------------------------------------

    def refuse(self, name, code, text):
        self.answers[name] = lambda p, b, r: p.send(
            "refuse", {"code": code, "text": text}, request=r)

    def tell_state(self, state, nodes="", n_nodes=0, generation=1, **more):
        self.state = dict(state=state, nodes=nodes, n_nodes=n_nodes,
                          generation=generation, **more)
        self.attached.send("job.state", dict(self.state, job=self.job))

    def tell_output(self, stream, offset, raw):
        self.attached.send("job.output", {"job": self.job, "stream": stream,
                                          "offset": offset}, raw)

    def bodies(self, name):
        with self.lock:
            return [body for _, seen, body in self.seen if seen == name]

    def wait_for(self, name, count=1, limit_s=10):
        """The body of the count-th message of this name."""
        return wait_until(lambda: self.bodies(name)[count - 1:count],
                          "message %d of %s" % (count, name), limit_s)[0]
