#!/usr/bin/env python3
"""Programs that know nothing of malle, and clients that mean no good.

The jobs are shell commands with launcher env.  What they write arrives whole,
their exit code is passed through, nothing of theirs is left over, and a daemon
that is killed finds them again.  The clients flood the daemon's socket and do
not read; others are served meanwhile.
"""

import os
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../scripts/lib"))
from malle_site import Site, program, wait_for
from malle_tap import check, run

HELLO, STATUS_GET = 1, 30


class Plain:
    """A site of three nodes, and shell commands on it."""

    def __init__(self, **options):
        settings = {"backend": "static", "nodes": "n[1-3]", "node_cpus": 0.0, "probe": False,
                    "settle_s": 0.05, "min_interval_s": 1.0, "grace_s": 5.0}
        settings.update(options)
        self.site = Site(settings, keep=bool(os.environ.get("MALLE_KEEP")))

    def __enter__(self):
        self.site.start()
        return self

    def __exit__(self, kind, why, trace):
        self.site.close()

    def start(self, *command, nodes=1, name="job", env=None):
        site = self.site
        with open(site.path(name + ".out"), "wb") as out, \
                open(site.path(name + ".err"), "wb") as err:
            client = subprocess.Popen(
                [program("malle-run"), "--server", site.socket, "--spool",
                 site.path("spool-" + name), "--launcher=env", "-J", name,
                 "--nnodes=%d:%d" % (nodes, nodes), "--"] + list(command),
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=site.dir,
                env=env, start_new_session=True)
        site.clients.append(client)
        return client

    def output(self, name="job", stream="out"):
        with open(self.site.path("%s.%s" % (name, stream)), "rb") as file:
            return file.read()

    def run(self, *command, limit_s=30, **more):
        client = self.start(*command, **more)
        return self.end(client, limit_s)

    def end(self, client, limit_s=30):
        wait_for("the job to end", lambda: client.poll() is not None, limit_s)
        return client.returncode

    def shell(self, text, **more):
        return self.run("sh", "-c", text, **more)

    def says(self, text, name="job"):
        wait_for("the job to say %s" % text, lambda: text in self.output(name), 10)

    def left(self):
        return [entry for entry in self.site.left_over() if "malle-agent" not in entry[1]]


def output_whole():
    """output that comes faster than anybody can read arrives whole, up to its last byte"""
    with Plain() as p:
        for last, code in ((700000, 7), (5000000, 0)):
            check(p.shell("seq 1 %d; exit %d" % (last, code)) == code, "exit code")
            want = subprocess.run(["seq", "1", str(last)], stdout=subprocess.PIPE).stdout
            check(p.output() == want, "%d bytes of %d: %s" % (
                len(p.output()), len(want), p.output(stream="err")[-200:]))
        p.shell("head -c 300000 /dev/urandom | tee ref; printf '\\0end'")
        with open(p.site.path("ref"), "rb") as ref:
            check(p.output() == ref.read() + b"\0end", "binary output was changed")


def words_kept():
    """blanks, quotes, newlines and empty words reach the program as they are"""
    words = ["a b", "'q'", '"d"', "", "\n", "$HOME", "\\", "\u00e9", "--", "-x"]
    with Plain() as p:
        env = dict(os.environ, Q="bl ank 'q' \"d\"\nnl")
        p.run("sh", "-c", 'printf "<%s>" "$@" "$Q"', "x", *words, env=env)
        want = "".join("<%s>" % word for word in words + [env["Q"]])
        check(p.output() == want.encode(), "got %s" % p.output())


def codes_passed():
    """the code of a program, of a signal, and of one that is not there is malle-run's"""
    with Plain() as p:
        for text, code in (("exit 3", 3), ("kill -9 $$", 137), ("kill -11 $$", 139),
                           ("exec >&- 2>&-; exit 4", 4)):
            got = p.shell(text)
            check(got == code, "%s: %d" % (text, got))
        check(p.run("/no/such/program") == 127, "a program that is not there")
        check(p.run("/etc/passwd") == 126, "one that is none")


def all_nodes_count():
    """a job of launcher env ends with its last worker, and a failure on any node is its"""
    with Plain() as p:
        check(p.shell("sleep $RANK; echo end of $RANK", nodes=2) == 0, "exit code")
        check(b"end of 1" in p.output(), "the first worker's end was the job's")
        check(p.shell("sleep $RANK; exit $((RANK * 5))", nodes=2) == 5, "exit code")


def detached():
    """a detached job writes to a file of its own, and its spool goes with it"""
    with Plain() as p:
        ids = []
        for word in ("one", "two"):
            done = subprocess.run(
                [program("malle-run"), "--server", p.site.socket, "--launcher=env", "--detach",
                 "--", "echo", word], cwd=p.site.dir, stdout=subprocess.PIPE, text=True)
            check(done.returncode == 0, "malle-run ended with %d" % done.returncode)
            ids.append(done.stdout.strip())
        for job, word in zip(ids, ("one", "two")):
            wait_for("output of job " + job,
                     lambda: p.site.read("malle-%s.out" % job) == word + "\n", 20)
        wait_for("spools to go", lambda: not os.path.exists(p.site.path(".malle")), 10)


def strays_ended():
    """orphans, sessions of their own and deaf ears are gone after the end"""
    with Plain() as p:
        p.shell("setsid sh -c 'setsid sleep 321 & (env -i setsid sleep 322 &)' & sleep 0.3")
        wait_for("strays to go", lambda: not p.left(), 10)
        for force in ([], ["--force"]):
            client = p.start("sh", "-c", "trap '' TERM INT; echo up; while :; do sleep 1; done")
            p.says(b"up")
            job = p.site.status("jobs")["jobs"][-1]["id"]
            check(p.site.ctl("cancel", job, *force).returncode == 0, "cancel")
            check(p.end(client) == 143, "exit code %s" % client.returncode)
            wait_for("it to go", lambda: not p.left(), 10)


def seen_at_work():
    """a program that never joins is shown with its nodes, is paused and started again"""
    with Plain() as p:
        client = p.start("sh", "-c", "echo generation $MALLE_GENERATION; sleep 100; exit 1",
                         nodes=2)
        p.says(b"generation 1")
        job = p.site.job(1)
        check(job["n_nodes"] == 2 and job["state"] == "starting", "%(state)s %(n_nodes)d" % job)
        p.site.ctl("pause", "1")
        wait_for("the pause", lambda: p.site.job(1)["state"] == "paused", 10)
        check(p.site.job(1)["n_nodes"] == 0 and not p.left(), "it holds nodes")
        p.site.ctl("resume", "1")
        p.says(b"generation 2")
        for pid, command in p.left():
            if command.startswith("sleep"):
                Site.end(pid, 9)
        check(p.end(client) == 1, "a failure of its second world is tried again and again")


def found_again():
    """a daemon killed with -9 finds a program that never joins, and its end"""
    with Plain() as p:
        client = p.start("sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.05; done; "
                         "echo end; exit 9", nodes=2)
        p.says(b"up\nup")
        p.site.kill_daemon()
        p.site.start()
        wait_for("its nodes", lambda: p.site.job(1)["n_nodes"] == 2, 10)
        open(p.site.path("go"), "w").close()
        check(p.end(client) == 9, "exit code %s" % client.returncode)
        check(p.output().count(b"up") == 2, "it was started anew: %s" % p.output())

        client = p.start("sh", "-c", "echo up; sleep 1; echo last words; exit 6", name="away")
        p.says(b"up", "away")
        p.site.kill_daemon()
        wait_for("its end", lambda: not p.left(), 10)
        p.site.start()
        check(p.end(client) == 6, "exit code %s" % client.returncode)
        check(p.output("away") == b"up\nlast words\n", "got %s" % p.output("away"))


# --- clients ------------------------------------------------------------------


def frame(kind, body=b"{}", number=0):
    return struct.pack(">4sHHII", b"MALL", 1, kind, len(body), number) + body


def connect(site, hello=True):
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.settimeout(10)
    peer.connect(site.socket)
    if hello:
        peer.sendall(frame(HELLO, b'{"role":"client"}'))
    return peer


def memory_kb(pid):
    with open("/proc/%d/status" % pid) as file:
        for line in file:
            if line.startswith("VmRSS"):
                return int(line.split()[1])
    return 0


def answers_quickly(site, limit_s=2.0):
    start = time.monotonic()
    done = site.ctl("ping")
    took = time.monotonic() - start
    check(done.returncode == 0, "ping: %s" % done.stderr)
    check(took < limit_s, "ping took %.2f s" % took)


def asker_deaf():
    """a client that asks and asks and does not read is let go, and costs little memory"""
    with Plain() as p:
        site, before = p.site, memory_kb(p.site.daemon.pid)
        deaf = connect(site)
        asks = frame(STATUS_GET, b'{"what":"jobs"}', 1) * 1000
        try:
            for _ in range(2000):
                deaf.sendall(asks)
        except OSError:
            pass
        else:
            check(False, "two million questions were taken")
        answers_quickly(site)
        grown = memory_kb(site.daemon.pid) - before
        check(grown < 64 << 10, "the daemon grew by %d kB" % grown)
        check("does not read, let go" in site.read("ctld.log"), "nothing is said in the log")
        deaf.close()


def crowd_silent():
    """a thousand connections that say nothing, or only hello, keep nobody out"""
    with Plain() as p:
        crowd = [connect(p.site, hello) for hello in (False, True) for _ in range(500)]
        answers_quickly(p.site)
        check(p.shell("exit 3") == 3, "a job in the crowd")
        for peer in crowd:
            peer.close()
        answers_quickly(p.site)


def reader_slow():
    """a client that does not read its job's output does not stop the job"""
    with Plain() as p:
        client = p.start("sh", "-c", "seq 1 5000000; touch done; exit 5")
        wait_for("the job", lambda: p.output(), 10)
        os.kill(client.pid, 19)
        wait_for("the job to be through", lambda: os.path.exists(p.site.path("done")), 20)
        answers_quickly(p.site)
        os.kill(client.pid, 18)
        check(p.end(client) == 5, "exit code %s" % client.returncode)


sys.exit(run([output_whole, words_kept, codes_passed, all_nodes_count, detached,
              strays_ended, seen_at_work, found_again, asker_deaf, crowd_silent, reader_slow]))
