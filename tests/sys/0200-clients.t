#!/usr/bin/env python3
"""malle-run, malle-status and mallectl against a daemon that has every fault."""
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fake_ctld import FakeCtld, HEADER, NUMBERS, encode, wait_until  # noqa: E402

BIN = os.path.join(os.path.abspath(os.environ.get("MALLE_BUILD", "build")), "bin")
RUN, STATUS, CTL = (os.path.join(BIN, name)
                    for name in ("malle-run", "malle-status", "mallectl"))
TESTS = []


class Skip(Exception):
    pass


def test(sentence):
    def add(function):
        TESTS.append((sentence, function))
        return function
    return add


def clean_env(**more):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("MALLE_", "XDG_", "SLURM_", "OMPI_"))}
    env.pop("COLUMNS", None)
    env.update(more)
    return env


def collect(stream, into):
    with stream:
        for piece in iter(lambda: os.read(stream.fileno(), 65536), b""):
            into.extend(piece)


def read(process):
    for reader in process.readers:
        reader.start()


def finish(process, limit_s=20):
    """(exit code, standard output in bytes, standard error as text)"""
    code = process.wait(limit_s)
    for reader in process.readers:
        reader.join(limit_s)
    return code, bytes(process.out), process.err.decode()


class Work:
    """A directory for one test, with the programs started in it."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="malle-clients.")
        os.chmod(self.dir, 0o755)
        self.sock = os.path.join(self.dir, "ctld.sock")
        self.started = []

    def path(self, name):
        return os.path.join(self.dir, name)

    def start(self, *argv, env=None, stalled=False, **keys):
        keys.setdefault("stdout", subprocess.PIPE)
        keys.setdefault("stderr", subprocess.PIPE)
        keys.setdefault("stdin", subprocess.DEVNULL)
        keys.setdefault("cwd", self.dir)
        process = subprocess.Popen(argv, env=env or clean_env(MALLE_SERVER=self.sock),
                                   **keys)
        self.started.append(process)
        process.out, process.err = bytearray(), bytearray()
        process.readers = [threading.Thread(target=collect, args=pair, daemon=True)
                           for pair in ((process.stdout, process.out),
                                        (process.stderr, process.err)) if pair[0]]
        if not stalled:
            read(process)
        return process

    def do(self, *argv, **keys):
        """(exit code, standard output, standard error)"""
        code, out, err = finish(self.start(*argv, **keys))
        return code, out.decode(), err

    def clean(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def equal(is_, wanted, what=""):
    assert is_ == wanted, "%s is %r, wanted %r" % (what, is_, wanted)


def one_line(text, program):
    assert text.startswith(program + ": ") and text.count("\n") == 1, \
        "not one line of %s: %r" % (program, text)
    assert "error" not in text.lower(), text


def attach(ctld, run, state="running"):
    """Wait until run follows its job, and have it run."""
    ctld.wait_for("job.attach")
    ctld.tell_state(state, "n[1-2]", 2, 4)


# --- usage -----------------------------------------------------------------------

USAGE = [
    (RUN, ["--frobnicate", "--", "true"], "--frobnicate"),
    (RUN, ["-Z", "true"], "-Z"),
    (RUN, [], "command"),
    (RUN, ["--nnodes=2:4"], "command"),
    (RUN, ["--nnodes=4:2", "true"], "minimum"),
    (RUN, ["--nnodes=0", "true"], "--nnodes"),
    (RUN, ["--nnodes=1:", "true"], "--nnodes"),
    (RUN, ["--nproc-per-node=gpu", "true"], "--nproc-per-node"),
    (RUN, ["--mode=warp", "true"], "live, swap or restart"),
    (RUN, ["--launcher=ssh", "true"], "mpi, torch or env"),
    (RUN, ["--priority=nan", "true"], "--priority"),
    (RUN, ["--fallback=maybe", "true"], "fail, wait or local"),
    (RUN, ["--detach=1", "true"], "no value"),
    (RUN, ["--nnodes"], "needs a value"),
    (STATUS, ["--frobnicate"], "--frobnicate"),
    (STATUS, ["weather"], "weather"),
    (STATUS, ["job"], "which one"),
    (STATUS, ["jobs", "3"], "one word too many"),
    (STATUS, ["-i", "0"], "--interval"),
    (CTL, [], "verb"),
    (CTL, ["explode"], "explode"),
    (CTL, ["--frobnicate", "ping"], "--frobnicate"),
    (CTL, ["cancel"], "which job"),
    (CTL, ["pause", "3", "--force"], "--force"),
    (CTL, ["show"], "config"),
]


@test("what was typed wrongly is exit 64 and one line that names it")
def usage(work):
    for program, argv, word in USAGE:
        code, out, err = work.do(program, *argv)
        equal(code, 64, "exit code of %s %s" % (program, argv))
        equal(out, "")
        one_line(err, os.path.basename(program))
        assert word in err, err


@test("--help and --version are answered on standard output without a daemon")
def help_and_version(work):
    for program in (RUN, STATUS, CTL):
        name = os.path.basename(program)
        code, out, err = work.do(program, "--help")
        assert (code, err) == (0, "") and out.startswith("usage: " + name)
        assert max(map(len, out.splitlines())) <= 80
        code, out, err = work.do(program, "--version")
        assert (code, err) == (0, "") and re.fullmatch(name + r" \d[\w.]*\n", out)


# --- no daemon --------------------------------------------------------------------

PROGRAMS = [[RUN, "true"], [STATUS], [STATUS, "job", "3"], [CTL, "ping"],
            [CTL, "cancel", "3"]]


@test("without a daemon every program is exit 69 and says where it looked")
def absent(work):
    for argv in PROGRAMS:
        code, out, err = work.do(*argv)
        equal((code, out), (69, ""), argv)
        one_line(err, os.path.basename(argv[0]))
        assert work.sock in err, err
    equal(os.listdir(work.dir), [], "what malle-run left behind")


@test("the daemon is looked for at --server, $MALLE_SERVER, then the usual places")
def where(work):
    other = work.path("other.sock")
    code, _, err = work.do(CTL, "ping", "--server", other)
    assert code == 69 and other in err and work.sock not in err, err
    os.mkdir(work.path("malle"))
    own = work.path("malle/ctld.sock")
    env = clean_env(XDG_RUNTIME_DIR=work.dir)
    if not os.path.exists("/run/malle/ctld.sock"):
        code, _, err = work.do(CTL, "ping", env=env)
        assert code == 69 and own in err and "/run/malle/ctld.sock" in err, err
        with FakeCtld(own):
            code, out, err = work.do(CTL, "ping", env=env)
            assert code == 0 and own in out, (out, err)
    with FakeCtld(work.sock):
        equal(work.do(CTL, "ping")[0], 0)


@test("a socket that one may not connect to is exit 77")
def forbidden(work):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root, to be somebody else")
    with FakeCtld(work.sock):
        os.chmod(work.sock, 0o600)
        for argv in PROGRAMS:
            code, _, err = work.do("setpriv", "--reuid=65534", "--regid=65534",
                                   "--clear-groups", *argv)
            equal(code, 77, argv)
            one_line(err, os.path.basename(argv[0]))


@test("a daemon that refuses hello is believed: its words, its exit code")
def refuses_hello(work):
    with FakeCtld(work.sock) as ctld:
        ctld.refuse("hello", 77, "protocol: version 1 is not spoken here, 2 is")
        for argv in PROGRAMS + [[RUN, "--fallback=local", "--launcher=env", "true"]]:
            code, _, err = work.do(*argv)
            equal(code, 77, argv)
            assert "version 1 is not spoken here, 2 is" in err
            one_line(err, os.path.basename(argv[0]))


@test("a daemon that listens and says nothing is exit 69 within the limit")
def silent(work):
    with FakeCtld(work.sock) as ctld:
        ctld.answers["hello"] = None
        for argv in ([RUN, "--timeout=0.3", "true"], [STATUS, "--timeout=0.3"],
                     [CTL, "--timeout=0.3", "ping"]):
            code, _, err = work.do(*argv)
            equal(code, 69, argv)
            assert "no answer" in err, err


@test("garbage instead of welcome is exit 69 and one line")
def garbage(work):
    bad = [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 64,
           HEADER.pack(0x4D414C4C, 1, 2, 1 << 30, 0),
           HEADER.pack(0x4D414C4C, 1, 2, 5, 0) + b"{\"a\":",
           encode("welcome", {"program": 3, "instance": "x"}), encode("pong"), None]
    for data in bad:
        with FakeCtld(work.sock) as ctld:
            ctld.answers["hello"] = lambda p, b, r: (
                p.send_bytes(data) if data else p.close())
            for argv in ([RUN, "true"], [STATUS], [CTL, "ping"]):
                code, out, err = work.do(*argv)
                equal((code, out), (69, ""), (argv, data))
                one_line(err, os.path.basename(argv[0]))


@test("a daemon that goes or is silent before it answers is exit 75")
def gone_before_answer(work):
    with FakeCtld(work.sock) as ctld:
        ctld.answers["status.get"] = lambda p, b, r: p.close()
        ctld.answers["ping"] = None
        code, _, err = work.do(STATUS)
        equal(code, 75)
        one_line(err, "malle-status")
        code, _, err = work.do(CTL, "--timeout=0.3", "ping")
        equal(code, 75)
        assert "no answer in 0.3 s" in err, err


# --- malle-run --------------------------------------------------------------------

@test("malle-run hands over what was typed, where, and in which environment")
def submits(work):
    env = clean_env(MALLE_SERVER=work.sock, SLURM_PROCID="3", SLURM_JOB_ID="9",
                    SLURM_CONF="/etc/slurm.conf", OMPI_COMM_WORLD_RANK="1",
                    PMIX_RANK="1", MALLE_JOB_ID="5", LD_LIBRARY_PATH="/opt/lib",
                    RANK="4", ORDINARY="a=b c")
    with FakeCtld(work.sock) as ctld:
        run = work.start(RUN, "--nnodes=2:8", "--nproc_per_node", "3", "-J", "big",
                         "--mode", "swap", "--priority=2.5", "--ledger", "/tmp/led",
                         "--output=log/%j.txt", "--", "./train", "--lr", "0.1",
                         env=env)
        body = ctld.wait_for("job.submit")
        attach(ctld, run)
        ctld.tell_state("ended", exit_code=0)
        equal(finish(run)[0], 0)
    equal(body["argv"], ["./train", "--lr", "0.1"])
    equal((body["min_nodes"], body["max_nodes"], body["nproc"]), (2, 8, 3))
    equal((body["name"], body["mode"], body["launcher"]), ("big", "swap", "mpi"))
    equal((body["priority"], body["cwd"]), (2.5, work.dir))
    equal(body["output"], work.path("log/%j.txt"))
    assert len(body["token"]) >= 16
    got = dict(entry.split("=", 1) for entry in body["env"])
    equal(got["LD_LIBRARY_PATH"], "/opt/lib")
    equal(got["ORDINARY"], "a=b c")
    equal(got["SLURM_CONF"], "/etc/slurm.conf")
    equal(got["MALLE_LEDGER"], "/tmp/led")
    for name in ("SLURM_PROCID", "SLURM_JOB_ID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                 "MALLE_JOB_ID", "MALLE_SERVER", "RANK"):
        assert name not in got, name


@test("each job has a spool of its own, removed with it unless a state is left there")
def spools(work):
    with FakeCtld(work.sock) as ctld:
        for n, (code, kept) in enumerate([(0, False), (143, True)], 1):
            ctld.state = {"state": "waiting", "generation": 0, "nodes": "", "n_nodes": 0}
            run = work.start(RUN, "true")
            spool = ctld.wait_for("job.submit", n)["spool"]
            assert spool.startswith(work.path(".malle/")) and os.path.isdir(spool)
            ctld.wait_for("job.attach", n)
            with open(os.path.join(spool, "state"), "w") as state:
                state.write("weights")
            ctld.tell_state("ended", exit_code=code)
            got, _, err = finish(run)
            equal(got, code)
            equal((os.path.exists(spool), spool in err), (kept, kept), "kept")
        ctld.refuse("job.submit", 65, "job true: no such launcher")
        equal(work.do(RUN, "true")[0], 65)
        equal(os.listdir(work.path(".malle")), [os.path.basename(spool)])


@test("two jobs may name one spool directory, and what else is in it stays")
def named_spool(work):
    os.mkdir(work.path("mine"))
    with open(work.path("mine/thesis"), "w") as file:
        file.write("years")
    with FakeCtld(work.sock) as ctld:
        spools = set()
        for n in (1, 2):
            ctld.state = {"state": "waiting", "generation": 0, "nodes": "", "n_nodes": 0}
            run = work.start(RUN, "--spool=mine", "true")
            spools.add(ctld.wait_for("job.submit", n)["spool"])
            ctld.wait_for("job.attach", n)
            ctld.tell_state("ended", exit_code=0)
            equal(finish(run)[0], 0)
        equal(len(spools), 2)
    equal(os.listdir(work.path("mine")), ["thesis"])


@test("output comes through raw, each stream to its own, and the exit code too")
def streams(work):
    raw = bytes(range(256)) * 300
    with FakeCtld(work.sock) as ctld:
        run = work.start(RUN, "--quiet", "train")
        attach(ctld, run)
        ctld.tell_output(1, 0, raw)
        ctld.tell_output(2, len(raw), b"oops\n")
        ctld.tell_output(1, len(raw) + 5, b"last, no newline")
        ctld.tell_state("ended", exit_code=17)
        code, out, err = finish(run)
    equal(code, 17)
    equal(out, raw + b"last, no newline")
    equal(err, "oops\n")


@test("changes of state are one line each, and --quiet has none")
def state_lines(work):
    with FakeCtld(work.sock) as ctld:
        run = work.start(RUN, "train")
        attach(ctld, run)
        ctld.tell_state("running", "n[1-2]", 2, 4)
        ctld.tell_output(2, 0, b"half a line")
        ctld.tell_state("running", "n1", 1, 5, reason="hole closes")
        ctld.tell_state("ended", exit_code=3, generation=5)
        code, out, err = finish(run)
    equal((code, out), (3, b""))
    equal(err.splitlines(), [
        "malle-run: job 7: waiting",
        "malle-run: job 7: running on n[1-2] (2 nodes), generation 4",
        "half a line",
        "malle-run: job 7: running on n1 (1 node), generation 5: hole closes",
        "malle-run: job 7: ended, exit code 3"])


@test("a refused submit is the daemon's sentence and its code")
def refused(work):
    with FakeCtld(work.sock) as ctld:
        ctld.refuse("job.submit", 77, "job train: user nobody may not\nsubmit")
        code, out, err = work.do(RUN, "--fallback=local", "train")
    equal((code, out), (77, ""))
    one_line(err, "malle-run")
    assert "user nobody may not?submit" in err, err


@test("a daemon restarted in the middle of streaming is found again, nothing twice")
def restarted(work):
    ctld = FakeCtld(work.sock, "one")
    run = work.start(RUN, "train")
    attach(ctld, run)
    ctld.tell_output(1, 0, b"one ")
    wait_until(lambda: b"one " in run.out, "the first output")
    state = ctld.state
    ctld.stop()
    wait_until(lambda: b"looking for it" in run.err, "word of the loss")
    with FakeCtld(work.sock, "two") as ctld:
        ctld.state = state
        equal(ctld.wait_for("job.attach"), {"job": "7", "offset": 0})
        ctld.tell_output(1, 0, b"two ")
        wait_until(lambda: b"two " in run.out, "output after the restart")
        ctld.drop()
        equal(ctld.wait_for("job.attach", 2), {"job": "7", "offset": 4})
        ctld.tell_output(1, 0, b"two three ")   # four bytes of it are known
        ctld.tell_output(1, 110, b"five")       # a hundred are gone
        ctld.tell_state("ended", exit_code=0)
        code, _, _ = finish(run)
        assert not ctld.bodies("job.submit")
    equal(code, 0)
    equal(bytes(run.out), b"one two three five")
    err = run.err.decode()
    equal(err.count("running on n[1-2]"), 1, err)
    equal(err.count("there again"), 2, err)
    assert "100 bytes of output were lost" in err, err


@test("a submit whose answer was lost is sent again with the same token")
def resent(work):
    with FakeCtld(work.sock) as ctld:
        accept = ctld.answers["job.submit"]
        ctld.answers["job.submit"] = lambda p, b, r: p.close()
        run = work.start(RUN, "train")
        first = ctld.wait_for("job.submit")
        ctld.answers["job.submit"] = accept
        ctld.wait_for("job.attach")
        equal(ctld.bodies("job.submit")[-1], first)
        ctld.tell_state("ended", exit_code=0)
        equal(finish(run)[0], 0)


@test("a daemon lost for longer than --timeout is exit 75, and the job is named")
def lost(work):
    ctld = FakeCtld(work.sock)
    run = work.start(RUN, "--timeout=0.5", "train")
    attach(ctld, run)
    ctld.stop()
    code, _, err = finish(run)
    equal(code, 75)
    assert "job 7 may go on" in err, err


@test("a job that the restarted daemon does not know ends malle-run with its words")
def forgotten(work):
    ctld = FakeCtld(work.sock)
    run = work.start(RUN, "train")
    attach(ctld, run)
    ctld.stop()
    with FakeCtld(work.sock, "two") as ctld:
        ctld.refuse("job.attach", 65, "job 7: is not known")
        code, _, err = finish(run)
    equal(code, 65)
    assert "job 7: is not known" in err, err


@test("Ctrl-C once asks the job to end and says so, twice kills it")
def interrupts(work):
    with FakeCtld(work.sock) as ctld:
        run = work.start(RUN, "train")
        attach(ctld, run)
        wait_until(lambda: b"running" in run.err, "the state line")
        run.send_signal(signal.SIGINT)
        equal(ctld.wait_for("job.cancel"), {"job": "7", "force": False})
        wait_until(lambda: b"Ctrl-C again kills it" in run.err, "the word")
        run.send_signal(signal.SIGINT)
        equal(ctld.wait_for("job.cancel", 2), {"job": "7", "force": True})
        ctld.tell_state("ended", exit_code=143)
        equal(finish(run)[0], 143)


@test("a third Ctrl-C leaves a daemon that does not come back")
def third_interrupt(work):
    ctld = FakeCtld(work.sock)
    run = work.start(RUN, "train")
    attach(ctld, run)
    ctld.stop()
    wait_until(lambda: b"looking for it" in run.err, "word of the loss")
    for word in (b"save its state", b"killing it", b"may go on"):
        run.send_signal(signal.SIGINT)
        wait_until(lambda: word in run.err, word)
    equal(finish(run)[0], 130)


@test("an interrupt while the daemon is away is sent when it is back")
def kept_interrupt(work):
    ctld = FakeCtld(work.sock)
    run = work.start(RUN, "train")
    attach(ctld, run)
    state = ctld.state
    ctld.stop()
    wait_until(lambda: b"looking for it" in run.err, "word of the loss")
    run.send_signal(signal.SIGINT)
    wait_until(lambda: b"when the daemon is back" in run.err, "the word")
    with FakeCtld(work.sock, "two") as ctld:
        ctld.state = state
        equal(ctld.wait_for("job.cancel"), {"job": "7", "force": False})
        ctld.tell_state("ended", exit_code=143)
        equal(finish(run)[0], 143)


@test("SIGTERM is a graceful cancel, also twice; SIGHUP leaves the job running")
def other_signals(work):
    with FakeCtld(work.sock) as ctld:
        run = work.start(RUN, "train")
        attach(ctld, run)
        wait_until(lambda: b"running" in run.err, "the state line")
        run.send_signal(signal.SIGTERM)
        equal(ctld.wait_for("job.cancel")["force"], False)
        run.send_signal(signal.SIGTERM)
        run.send_signal(signal.SIGHUP)
        code, _, _ = finish(run)
        equal(code, 129)
        equal(len(ctld.bodies("job.cancel")), 1, "cancels")
        assert b"goes on" in run.err


@test("a terminal that goes away leaves the job running")
def terminal_gone(work):
    with FakeCtld(work.sock) as ctld:
        master, slave = pty.openpty()
        run = work.start(RUN, "train", stdin=slave, stdout=slave, stderr=slave,
                         start_new_session=True,
                         preexec_fn=lambda: fcntl.ioctl(0, 0x540E, 0))  # TIOCSCTTY
        os.close(slave)
        attach(ctld, run)
        wait_until(lambda: b"running" in os.read(master, 4096), "the state line")
        os.close(master)
        equal(run.wait(10), 129)
        equal(ctld.bodies("job.cancel"), [])


@test("a reader that stands still does not keep Ctrl-C from being heard")
def stalled_reader(work):
    with FakeCtld(work.sock) as ctld:
        run = work.start(RUN, "train", stalled=True)
        attach(ctld, run)
        ctld.answers["job.cancel"] = None  # its answer would stand in the queue
        sender = threading.Thread(daemon=True, target=lambda: [
            ctld.tell_output(1, n * 65536, b"x" * 65536) for n in range(64)])
        sender.start()
        run.send_signal(signal.SIGINT)
        equal(ctld.wait_for("job.cancel")["force"], False)
        assert sender.is_alive(), "malle-run took 4 MiB that nobody reads"
        read(run)
        sender.join(10)
        ctld.tell_state("ended", exit_code=143)
        code, out, _ = finish(run)
        equal((code, len(out)), (143, 4 << 20))


@test("--detach prints the job's id and leaves; its output goes to a file")
def detached(work):
    with FakeCtld(work.sock, job="42") as ctld:
        equal(work.do(RUN, "--detach", "train"), (0, "42\n", ""))
        equal(ctld.bodies("job.submit")[0]["output"], work.path("malle-%j.out"))
        equal(work.do(RUN, "--detach", "-o", "/logs/a", "train")[1], "42\n")
        equal(ctld.bodies("job.submit")[1]["output"], "/logs/a")
        equal(ctld.bodies("job.attach") + ctld.bodies("job.cancel"), [])


@test("--fallback=wait waits for a daemon, and Ctrl-C ends the waiting")
def waits(work):
    run = work.start(RUN, "--fallback=wait", "train")
    wait_until(lambda: b"waiting for it" in run.err, "the word")
    with FakeCtld(work.sock) as ctld:
        ctld.wait_for("job.attach")
        ctld.tell_state("ended", exit_code=0)
        equal(finish(run)[0], 0)
    run = work.start(RUN, "--fallback=wait", "train")
    wait_until(lambda: b"waiting for it" in run.err, "the word")
    run.send_signal(signal.SIGINT)
    equal(finish(run)[0], 130)


# --- --fallback=local ---------------------------------------------------------------

SHOW = "echo $RANK/$WORLD_SIZE ${MALLE_SOCKET-none} $MALLE_LEDGER $SLURM_PROCID; exit %d"


@test("--fallback=local runs the command here, says so, and passes its code on")
def local(work):
    env = clean_env(MALLE_SERVER=work.sock, MALLE_SOCKET="/x", SLURM_PROCID="2")
    code, out, err = work.do(RUN, "--fallback=local", "--launcher=env", "--ledger=/l",
                             "sh", "-c", SHOW % 5, env=env)
    equal((code, out), (5, "0/1 none /l\n"))
    one_line(err, "malle-run")
    assert "on this machine alone" in err
    code, out, _ = work.do(RUN, "--fallback=local", "--launcher=env", "./nothing")
    equal(code, 127)


@test("--fallback=local starts every rank, and one that fails ends the others")
def local_ranks(work):
    argv = [RUN, "--fallback=local", "--launcher=torch", "--nproc-per-node=3"]
    code, out, _ = work.do(*argv, "sh", "-c", "echo $RANK $LOCAL_RANK $WORLD_SIZE "
                           "$LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR")
    equal((code, sorted(out.splitlines())),
          (0, ["%d %d 3 3 0 127.0.0.1" % (rank, rank) for rank in range(3)]))
    code, _, _ = work.do(*argv, "sh", "-c",
                         'if [ "$RANK" = 1 ]; then exit 9; fi; exec sleep 600')
    equal(code, 9)


@test("--fallback=local with several ranks passes SIGTERM on")
def local_term(work):
    run = work.start(RUN, "--fallback=local", "--launcher=env", "--nproc-per-node=2",
                     "sh", "-c", "echo ready; exec sleep 600")
    wait_until(lambda: run.out.count(b"ready") == 2, "both ranks")
    run.send_signal(signal.SIGTERM)
    equal(finish(run)[0], 143)


@test("--fallback=local with launcher mpi is mpirun")
def local_mpi(work):
    if not shutil.which("mpirun"):
        raise Skip("needs mpirun")
    code, out, err = work.do(RUN, "--fallback=local", "--nproc-per-node=2", "sh", "-c",
                             "echo $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE; exit 0")
    equal((code, sorted(out.splitlines())), (0, ["0/2", "1/2"]))
    assert "2 workers by mpirun" in err, err
    equal(work.do(RUN, "--fallback=local", "sh", "-c", "exit 3")[0], 3)


# --- malle-status -------------------------------------------------------------------

def make_job(number, **more):
    job = {"id": str(number), "name": "train", "user": "ada", "uid": 1000,
           "state": "running", "reason": "", "min_nodes": 1, "max_nodes": 8, "nproc": 2,
           "mode": "swap", "launcher": "mpi", "priority": 1.0, "generation": 14,
           "restarts": 0, "nodes": ["n1", "n2", "n3", "n5"], "n_nodes": 4,
           "rate_per_s": 12345.6, "cursor": 98765432, "step": 192901,
           "submit_s": 1.7e9, "start_s": 1.7e9, "end_s": None, "exit_code": None,
           "node_s": 812.5,
           "rescales": {"grow": 7, "shrink": 6, "forced": 3, "moved": 1, "failed": 0},
           "pause_s": {"last": 0.21, "p50": 0.25, "max": 1.5},
           "transaction": {"kind": "grow", "phase": "prepare", "target": ["n6", "n7"],
                           "since_s": 2.5},
           "probe": {"state": "probing", "size": 4, "points": 3, "ci": 0.04,
                     "budget": 0.01},
           "curve": [[1, 3500.0, 100.0], [4, 12000.0, None]]}
    job.update(more)
    return job


def make_node(name, **more):
    node = {"name": name, "state": "assigned", "job": "3", "claim": "c1",
            "until_s": 42.0, "reason": "", "agent_pid": 77, "cpus": 0.25}
    node.update(more)
    return node


def summary_of(jobs, nodes):
    return {"daemon": {"version": "0.1.0", "instance": "x", "uptime_s": 3725.0,
                       "state": "ok", "backend": "trace", "socket": "/run/x"},
            "jobs": jobs, "nodes": nodes,
            "totals": {"offered_node_s": 5000.0, "used_node_s": 4000.0,
                       "rescales": {"grow": 7, "shrink": 6, "forced": 3},
                       "pause_s": {"p50": 0.25, "max": 1.5}, "probe_node_s": 30.0,
                       "node_s": 4000.0}}


def widest(text):
    return max(map(len, text.splitlines()))


@test("malle-status shows jobs and nodes, and --json everything as it came")
def status(work):
    data = summary_of([make_job(3)], [make_node("n1"), make_node("n2", job=None,
                      state="away", until_s=None, reason="the scheduler has it")])
    with FakeCtld(work.sock) as ctld:
        ctld.data["summary"] = data
        code, out, err = work.do(STATUS)
        equal((code, err), (0, ""))
        lines = [line.split() for line in out.splitlines()]
        assert ["ID", "NAME", "USER", "STATE", "NODES", "GEN", "RATE/s", "SAMPLES",
                "RESCALES", "PAUSE", "PROBE"] in lines, out
        assert ["3", "train", "ada", "running", "4/8", "14", "12.3k", "98.8M", "14",
                "250ms", "probing@4"] in lines, out
        assert "NODE STATE JOB UNTIL REASON".split() in lines, out
        assert "n1 assigned 3 42s -".split() in lines, out
        assert "n2 away - - the scheduler has it".split() in lines, out
        assert widest(out) <= 80 and "\033" not in out, out
        code, out, _ = work.do(STATUS, "--json")
        equal((code, json.loads(out)), (0, data))


@test("malle-status fits 80 columns with the longest names and numbers")
def status_fits(work):
    jobs = [make_job(10 ** 9 + n, name="x" * 64, user="u" * 32, state="starting",
                     n_nodes=65536, max_nodes=65536, generation=999999,
                     rate_per_s=9.87e14, cursor=2 ** 53 - 1,
                     pause_s={"p50": 123456.0}, nodes=["node%d" % i for i in
                                                      range(0, 400, 2)],
                     probe={"state": "p" * 32, "size": 65536}) for n in range(3)]
    nodes = [make_node("n" * 64, state="claiming", job="7" * 64, until_s=86400 * 400,
                       reason="r" * 63), make_node("\u00fcber\u2603" * 12)]
    env = clean_env(MALLE_SERVER=work.sock, LC_ALL="C.UTF-8")
    with FakeCtld(work.sock) as ctld:
        ctld.data = {"summary": summary_of(jobs, nodes), "jobs": {"jobs": jobs},
                     "nodes": {"nodes": nodes}, "job": {"job": jobs[0]},
                     "node": {"node": nodes[0]}}
        for argv in ([], ["jobs"], ["nodes"], ["job", "1"], ["node", "n"]):
            code, out, err = work.do(STATUS, *argv, env=env)
            equal((code, err), (0, ""), argv)
            assert widest(out) <= 80, (argv, out)
            assert len(out.splitlines()) < 40, out
        # A line for each job: none is wrapped.
        equal(len(work.do(STATUS, "jobs", env=env)[1].splitlines()), 4)


@test("malle-status job shows its transaction, its probe and its curve")
def status_job(work):
    with FakeCtld(work.sock) as ctld:
        ctld.data = {"job": {"job": make_job(3)}, "node": {"node": make_node("n1")}}
        code, out, _ = work.do(STATUS, "job", "3")
        equal(code, 0)
        equal(ctld.bodies("status.get")[0], {"what": "job", "id": "3"})
        for words in ("nodes 4 of 1 to 8: n[1-3,5]", "grow, in phase prepare for 2.5s",
                      "to n[6-7]", "probing at 4 nodes, 3 points", "3.50k 100 3.50k",
                      "12.0k - 3.00k", "7 grown, 6 shrunk (3 forced)"):
            assert words in re.sub(r" +", " ", out), (words, out)
        code, out, _ = work.do(STATUS, "node", "n1")
        assert code == 0 and "process 77" in out, out
        ctld.data = {}
        code, out, err = work.do(STATUS, "job", "99")
        equal((code, out, err), (65, "", "malle-status: job 99: there is none\n"))


@test("malle-status of a daemon that says little or nonsense still answers")
def status_sparse(work):
    with FakeCtld(work.sock) as ctld:
        for data in ({}, {"jobs": [{}], "nodes": [{}]}, {"jobs": 3, "nodes": "x"},
                     {"jobs": [None, [], {"id": 3, "pause_s": []}], "nodes": [7]}):
            ctld.data = {what: data for what in ("summary", "jobs", "nodes", "job",
                                                 "node")}
            for argv in ([], ["jobs"], ["nodes"], ["job", "1"], ["node", "n"]):
                code, out, err = work.do(STATUS, *argv)
                equal((code, err), (0, ""), (argv, data))


@test("names cannot make a terminal act")
def status_escapes(work):
    evil = "a\033[2Jb\r\nc"
    data = summary_of([make_job(3, name=evil)], [make_node("n1", reason=evil)])
    data["daemon"]["version"] = evil
    with FakeCtld(work.sock) as ctld:
        ctld.data = {"summary": data, "job": {"job": data["jobs"][0]}}
        for argv in ([STATUS], [STATUS, "job", "3"]):
            code, out, _ = work.do(*argv)
            assert code == 0 and "\033" not in out and "\r" not in out, repr(out)


@test("colour and clearing are for terminals only, and NO_COLOR is respected")
def status_terminal(work):
    with FakeCtld(work.sock) as ctld:
        ctld.data["summary"] = summary_of([make_job(3)], [make_node("n1")])
        for more, colour in (({}, True), ({"NO_COLOR": "1"}, False)):
            master, slave = pty.openpty()
            env = clean_env(MALLE_SERVER=work.sock, TERM="xterm", **more)
            status_ = work.start(STATUS, stdout=slave, env=env)
            equal(status_.wait(10), 0)
            os.close(slave)
            out = os.read(master, 65536)
            os.close(master)
            equal(b"\033[" in out, colour, out)


@test("malle-status -i repeats, also over a restart of the daemon")
def status_repeats(work):
    with FakeCtld(work.sock) as ctld:
        ctld.data["jobs"] = {"jobs": []}
        run = work.start(STATUS, "-i", "0.1", "--json", "jobs")
        ctld.wait_for("status.get", 3)
    wait_until(lambda: b"trying again" in run.err, "word of the loss")
    with FakeCtld(work.sock, "two") as ctld:
        ctld.data["jobs"] = {"jobs": ["again"]}
        wait_until(lambda: b"again" in run.out, "an answer of the new one")
        for line in bytes(run.out).splitlines()[:3]:
            json.loads(line)
        run.send_signal(signal.SIGINT)
        equal(run.wait(10), -signal.SIGINT)
    equal(run.err.count(b"trying again"), 1)


# --- mallectl -----------------------------------------------------------------------

@test("mallectl does each of its verbs")
def verbs(work):
    with FakeCtld(work.sock) as ctld:
        ctld.options = [{"name": "grace_s", "value": 30, "default": 30.0, "unit": "s",
                         "help": "x"}, {"name": "socket", "value": "/" + "y" * 300,
                                        "default": "", "unit": None, "help": "x"}]
        equal(work.do(CTL, "cancel", "3"), (0, "job 3 is being cancelled\n", ""))
        equal(work.do(CTL, "cancel", "3", "--force")[0], 0)
        equal([b["force"] for b in ctld.bodies("job.cancel")], [False, True])
        equal(work.do(CTL, "pause", "3"), (0, "job paused\n", ""))
        equal(work.do(CTL, "resume", "3")[0], 0)
        equal(ctld.bodies("job.pause") + ctld.bodies("job.resume"), [{"job": "3"}] * 2)
        code, out, _ = work.do(CTL, "ping")
        assert code == 0 and "mallectld 9.9" in out and "up 1m05s" in out, out
        equal(json.loads(work.do(CTL, "--json", "ping")[1])["uptime_s"], 65.0)
        code, out, _ = work.do(CTL, "show", "config")
        assert code == 0 and "grace_s" in out and widest(out) <= 80, out
        equal(json.loads(work.do(CTL, "show", "config", "--json")[1]),
              {"options": ctld.options})
        ctld.refuse("job.cancel", 77, "job 3: belongs to ada")
        equal(work.do(CTL, "cancel", "3"), (77, "", "mallectl: job 3: belongs to ada\n"))


# --- output that cannot be written -----------------------------------------------------

@test("output that cannot be written is exit 74, whatever was asked")
def full(work):
    if not os.path.exists("/dev/full"):
        raise Skip("needs /dev/full")
    with FakeCtld(work.sock) as ctld, open("/dev/full", "wb") as sink:
        ctld.data["summary"] = summary_of([], [])
        for argv in ([STATUS], [STATUS, "--json"], [CTL, "ping"], [CTL, "cancel", "3"],
                     [CTL, "--help"], [STATUS, "--version"], [RUN, "--help"],
                     [RUN, "--detach", "true"]):
            code, _, err = work.do(*argv, stdout=sink)
            equal(code, 74, argv)
            one_line(err, os.path.basename(argv[0]))
        run = work.start(RUN, "train", stdout=sink)
        ctld.wait_for("job.submit", 2)
        ctld.wait_for("job.attach")
        ctld.tell_output(1, 0, b"line\n")
        code, _, err = finish(run)
        equal(code, 74)
        assert "job 7 goes on" in err, err
        equal(len(ctld.bodies("job.cancel")), 1, "cancels")  # by mallectl, above


@test("a reader that goes away is exit 74 and leaves the job running")
def broken_pipe(work):
    with FakeCtld(work.sock) as ctld:
        run = work.start(RUN, "train", stalled=True)
        attach(ctld, run)
        run.stdout.close()
        ctld.tell_output(1, 0, b"line\n")
        equal(run.wait(20), 74)
        equal(ctld.bodies("job.cancel"), [])


@test("an environment that is too large for a message is exit 65 and one line")
def too_large(work):
    env = clean_env(MALLE_SERVER=work.sock)
    # JSON needs six bytes for each of these, or it would not get past execve.
    env.update(("BIG%d" % n, "\1" * 100000) for n in range(10))
    with FakeCtld(work.sock):
        code, _, err = work.do(RUN, "true", env=env)
    equal(code, 65)
    one_line(err, "malle-run")


@test("what is not UTF-8 is refused in the command, left out of the environment")
def not_utf8(work):
    with FakeCtld(work.sock) as ctld:
        code, _, err = work.do(RUN, b"\xff\xfe")
        equal(code, 65)
        one_line(err, "malle-run")
        env = dict(clean_env(MALLE_SERVER=work.sock), ODD=os.fsdecode(b"\xff"))
        code, out, err = work.do(RUN, "--detach", "true", env=env)
        equal((code, out), (0, "7\n"))
        assert "1 variable" in err, err
        assert not [e for e in ctld.bodies("job.submit")[0]["env"] if "ODD" in e]


def main(wanted):
    failed = 0
    for sentence, function in TESTS:
        if wanted and function.__name__ not in wanted:
            continue
        work = Work()
        try:
            function(work)
            print("ok - %s" % sentence, flush=True)
        except Skip as why:
            print("ok - %s # skip: %s" % (sentence, why), flush=True)
        except Exception:  # a test that fails must not keep the others from running
            failed += 1
            print("not ok - %s" % sentence, flush=True)
            print("".join("# %s\n" % line for line in
                          traceback.format_exc().splitlines()), end="", flush=True)
        finally:
            work.clean()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
