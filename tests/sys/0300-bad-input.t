#!/usr/bin/env python3
"""Bad input to every program: the promised exit code, and one clear line.

The line is `program: what, to which object, why`: no usage text, no second line.
Programs are taken from the build folder, so that a new one is not forgotten.
"""

import json
import os
import pwd
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../scripts/lib"))
from malle_site import ROOT, Site, build_dir, program, wait_for
from malle_tap import check, run

KNOWN = {"mallectld", "malle-agent", "malle-rsh", "malle-run", "malle-status", "mallectl",
         "malle-alloc", "malle-hostlist", "malle-ledger"}
EXAMPLES = {"fashion_mpi"}  # trainers, not programs of ours: no --version
VERSION = 1  # of the protocol
HELLO, WELCOME, REFUSE, PING = 1, 2, 4, 5
work = None  # a directory for all, which everybody may enter


class Skip(Exception):
    pass


def programs():
    folder = os.path.join(build_dir(), "bin")
    found = {name for name in os.listdir(folder)
             if os.path.isfile(os.path.join(folder, name)) and
             os.access(os.path.join(folder, name), os.X_OK)}
    check(KNOWN <= found, "not built: %s" % ", ".join(sorted(KNOWN - found)))
    return sorted(found)


def clean_env(more=None):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("MALLE_", "XDG_", "OMPI_"))}
    env.update(HOME=work, LC_ALL="C")
    env.update(more or {})
    return env


def tell(argv, env=None, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, user=None):
    """Run a program by its name; code, standard output, standard error."""
    path = program(argv[0])
    if user:
        path = for_everybody(argv[0])
        pre = ["runuser", "-u", user, "--"]
    else:
        pre = []
    done = subprocess.run(pre + [path] + argv[1:], env=clean_env(env), stdin=stdin,
                          stdout=stdout, stderr=subprocess.PIPE, cwd=work, timeout=30)
    return done.returncode, (done.stdout or b"").decode(errors="replace"), \
        done.stderr.decode(errors="replace")


def for_everybody(name):
    """A copy that other users can execute, wherever the build folder is."""
    copy = os.path.join(work, "bin", name)
    if not os.path.exists(copy):
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copy(program(name), copy)
        os.chmod(copy, 0o755)
    return copy


def one_line(name, err):
    check(err.endswith("\n") and err.count("\n") == 1, "%s: not one line: %r" % (name, err))
    check(err.startswith(name + ": "), "does not begin with %s: %r" % (name, err))
    check("usage:" not in err.lower() and "error" not in err.lower(), "says %r" % err)
    check(all(c >= " " for c in err[:-1]), "control characters: %r" % err)


def refuses(argv, code, *parts, **how):
    got, out, err = tell(argv, **how)
    check(got == code, "%s: exit %d, not %d: %r" % (" ".join(argv), got, code, err))
    check(out == "", "%s: prints %r" % (" ".join(argv), out))
    one_line(argv[0], err)
    for part in parts:
        check(part in err, "%s: no %r in %r" % (" ".join(argv), part, err))


def succeeds(argv, **how):
    got, out, err = tell(argv, **how)
    check(got == 0, "%s: exit %d: %r" % (" ".join(argv), got, err))
    check(err == "", "%s: says %r" % (" ".join(argv), err))
    return out


def path(*parts):
    return os.path.join(work, *parts)


def write(name, text, mode=0o644):
    with open(path(name), "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    os.chmod(path(name), mode)
    return path(name)


def need_root():
    if os.geteuid() != 0:
        raise Skip("only root can be another user")
    if not shutil.which("runuser"):
        raise Skip("runuser is not installed")
    try:
        pwd.getpwnam("nobody")
    except KeyError:
        raise Skip("there is no user nobody")


# --- without a daemon ---------------------------------------------------------


def unknown_options():
    """an unknown option, long or short, is named by every program, exit 64"""
    for name in programs():
        refuses([name, "--frobnicate"], 64, "--frobnicate")
        refuses([name, "-Z"], 64, "Z")


def missing_values():
    """an option without its value and one that takes none are bad usage"""
    for argv in (["mallectld", "--config"], ["mallectld", "-c"], ["malle-status", "-i"],
                 ["malle-status", "--server"], ["mallectl", "--server"],
                 ["malle-run", "--nnodes"], ["malle-alloc", "--solver"],
                 ["malle-hostlist", "--limit"], ["mallectld", "--test=3"],
                 ["malle-status", "--json=3"], ["mallectld", "--example=3"],
                 ["malle-ledger", "--json=3", "check", "x"]):
        refuses(argv, 64, argv[1])


def bad_arguments():
    """arguments that make no sense are bad usage"""
    for argv in (["mallectld", "start"], ["malle-status", "weather"], ["malle-status", "job"],
                 ["malle-status", "-i", "never"], ["mallectl"], ["mallectl", "dance"],
                 ["mallectl", "cancel"], ["malle-run"], ["malle-run", "--nnodes=4:2", "--", "x"],
                 ["malle-run", "--nnodes=0", "--", "x"], ["malle-alloc", "--solver", "magic"],
                 ["malle-alloc", "--time-limit", "-3"], ["malle-alloc", "a", "b"],
                 ["malle-hostlist"], ["malle-hostlist", "fold", "a"], ["malle-ledger"],
                 ["malle-ledger", "check"], ["malle-agent", "extra"], ["malle-agent", "--exec"],
                 ["malle-rsh"], ["malle-rsh", "n1"], ["fashion_mpi", "extra"],
                 ["fashion_mpi", "--hidden", "x"]):
        refuses(argv, 64)


def help_and_version():
    """--help and --version exit 0 and print to standard output only"""
    for name in programs():
        check(name in succeeds([name, "--help"]), "%s --help does not name it" % name)
        if name not in EXAMPLES:
            out = succeeds([name, "--version"])
            check(out.startswith(name + " ") and out.count("\n") == 1, "prints %r" % out)


def full_output():
    """standard output on a full disk is exit 74"""
    with open(path("problem.json"), "w") as file:
        json.dump({"version": 1, "nodes": [{"name": "n1", "job": None}], "jobs": []}, file)
    with open("/dev/full", "wb") as full:
        for name in programs():
            if name not in EXAMPLES:
                refuses([name, "--help"], 74, "standard output", stdout=full)
                refuses([name, "--version"], 74, "standard output", stdout=full)
        for argv in (["mallectld", "--example"], ["malle-hostlist", "expand", "n[1-9999]"],
                     ["malle-alloc", path("problem.json")],
                     ["mallectld", "-t", "-c", write("good.conf", "probe = true\n")]):
            refuses(argv, 74, "standard output", stdout=full)


def unreadable_files():
    """a file that is absent or a directory is named with the reason, exit 66"""
    for file, why in ((path("absent"), "No such file"), (work, "Is a directory")):
        for argv in (["mallectld", "-c", file], ["mallectld", "-t", "-c", file],
                     ["malle-alloc", file]):
            refuses(argv, 66, file, why)
    refuses(["mallectld", "-t", "-c", "/dev/zero"], 66, "/dev/zero")
    refuses(["malle-ledger", "check", path("absent")], 66, path("absent"))
    refuses(["malle-ledger", "check", write("plain", "x")], 66, path("plain"))
    folder = os.open(work, os.O_RDONLY)
    refuses(["malle-alloc"], 66, "standard input", stdin=folder)
    refuses(["malle-hostlist", "expand", "-"], 66, "standard input", stdin=folder)
    os.close(folder)


def forbidden_files():
    """a file that the user may not read is named, exit 66"""
    need_root()
    file = write("secret", "probe = true\n", 0o600)
    for argv in (["mallectld", "-c", file], ["malle-alloc", file]):
        refuses(argv, 66, file, "Permission denied", user="nobody")
    os.makedirs(path("secrets"), 0o700, exist_ok=True)
    refuses(["malle-ledger", "check", path("secrets")], 66, path("secrets"),
            "Permission denied", user="nobody")


def bad_data():
    """data that makes no sense is exit 65"""
    refuses(["malle-alloc", write("p1", "{")], 65, path("p1"))
    refuses(["malle-alloc", write("p2", b"\0\1\2")], 65, path("p2"))
    refuses(["malle-alloc", write("p3", '{"version": 1, "nodes": 3}')], 65, "nodes")
    refuses(["malle-alloc"], 65, "standard input")
    refuses(["malle-hostlist", "expand", "n[1-"], 65, "column 5")


CONFIGURATIONS = (
    # text, line, column, part of the sentence
    ("nonsense = 1\n", 1, 1, "nonsense"),
    ("# one\n# two\n\n  nonsense = 1\n", 4, 3, "nonsense"),
    ("/* one\n two */ nonsense = 1\n", 2, 9, "nonsense"),
    ("grace_s = 0\n", 1, 11, "grace_s: 0 is not between 0.1 and 3600"),
    ("probe = true\ngrace_s = nan\n", 2, 11, "nan"),
    ("grace_s = 5\nmax_restarts = 1.5\n", 2, 16, "max_restarts"),
    ("max_restarts = 99999999999999\n", 1, 16, "max_restarts"),
    ("probe = maybe\n", 1, 9, "probe"),
    ("backend = \"cloud\"\n", 1, 12, "\"cloud\" is not one of"),
    ("\nnodes = \"n[1-\"\n", 2, 10, "column 5: missing ]"),
    ("nodes = \"n[0-18446744073709551615]\"\n", 1, 10, "more than 65536"),
    ("state_dir = \"\"\n", 1, 1, "state_dir"),
    ("run_dir = \"here\"\n", 1, 12, "\"here\" does not begin with /"),
    ("grace_s 5\n", 1, 9, "equal sign"),
    ("grace_s = 5 6\n", 1, 13, "6"),
    ("}\n", 1, 1, "brace"),
    ("probe = true\n /* never ends\n", 2, 2, "comment"),
    ("log_file = \"never ends\n", 2, 1, "end of file"),
    (b"grace_s = 5\nn\0 = 1\n", 2, 2, "zero byte"),
    (b"\xff\xfe\n", 1, 1, ""),
)


def broken_configurations():
    """a broken configuration is refused with FILE:LINE:COLUMN, exit 78"""
    for i, (text, line, column, part) in enumerate(CONFIGURATIONS):
        file = write("bad%d.conf" % i, text)
        place = "mallectld: %s:%d:%d: " % (file, line, column)
        refuses(["mallectld", "-t", "-c", file], 78, place, part)
        refuses(["mallectld", "-c", file], 78, place, part)


def example_is_current():
    """scripts/malle.conf.example is what mallectld --example prints, and is good"""
    with open(os.path.join(ROOT, "scripts/malle.conf.example")) as file:
        text = file.read()
    check(succeeds(["mallectld", "--example"]) == text,
          "it is not: build/bin/mallectld --example >scripts/malle.conf.example")
    check("good" in succeeds(["mallectld", "-t", "-c", write("example.conf", text)]), "not good")
    plain = "".join(line[2:] + "\n" for line in text.splitlines()
                    if line.startswith("# ") and " = " in line)
    check(plain.count("\n") > 20, "options are missing: %s" % plain)
    succeeds(["mallectld", "-t", "-c", write("uncommented.conf", plain)])


def absent_daemon():
    """without a daemon every client says where it looked, exit 69"""
    dead = path("dead.sock")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(dead)
    for server in (path("absent.sock"), dead, write("file.sock", "")):
        for argv in (["mallectl", "ping"], ["mallectl", "cancel", "1"],
                     ["mallectl", "show", "config"], ["malle-status"],
                     ["malle-status", "nodes"], ["malle-status", "job", "1"]):
            refuses([argv[0], "--server", server] + argv[1:], 69, server)
            refuses(argv, 69, server, env={"MALLE_SERVER": server})
        refuses(["malle-run", "--server", server, "--fallback=fail", "--", "true"], 69, server)
        refuses(["malle-rsh", "n1", "orted"], 69, server,
                env={"MALLE_SOCKET": server, "MALLE_JOB_ID": "1", "MALLE_GENERATION": "1"})


def absent_environment():
    """programs that are started by others name the variable that is missing, exit 78"""
    refuses(["malle-agent"], 78, "MALLE_CTLD")
    refuses(["malle-agent"], 78, "MALLE_GRACE_S", env={
        "MALLE_CTLD": path("a"), "MALLE_NODE": "n1", "MALLE_CLAIM": "c", "MALLE_RUNDIR": work,
        "MALLE_GRACE_S": "soon"})
    refuses(["malle-rsh", "n1", "orted"], 78, "MALLE_SOCKET")


# --- places that the daemon needs ------------------------------------------------


def conf_of(name, **options):
    """A configuration whose places are all below a directory of its own."""
    folder = path(name)
    os.makedirs(folder, exist_ok=True)
    settings = {"backend": "static", "nodes": "n[1-2]", "node_cpus": 0, "agent": "/bin/false",
                "socket": folder + "/ctld.sock", "run_dir": folder + "/run",
                "state_dir": folder + "/state"}
    settings.update(options)
    return write(name + "/malle.conf", "".join(
        "%s = %s\n" % (key, value if isinstance(value, (int, float)) else '"%s"' % value)
        for key, value in settings.items()))


def places_in_the_way():
    """a path where the daemon's directories or socket cannot be is named, exit 78"""
    write("thing", "")
    for name, options, part in (
            ("p-state", {"state_dir": path("thing")}, path("thing")),
            ("p-state2", {"state_dir": path("thing/below")}, path("thing")),
            ("p-run", {"run_dir": path("thing")}, path("thing")),
            ("p-sockdir", {"socket": path("thing/ctld.sock")}, path("thing")),
            ("p-sock", {"socket": path("thing")}, path("thing")),
            ("p-sock2", {"socket": work}, work),
            ("p-long", {"socket": path("x" * 108)}, "107")):
        refuses(["mallectld", "-c", conf_of(name, **options)], 78, part)
    os.makedirs(path("p-journal/state/journal.jsonl"))
    refuses(["mallectld", "-c", conf_of("p-journal")], 78, "journal.jsonl")
    check(os.path.getsize(path("thing")) == 0, "the thing was changed")
    refuses(["mallectld", "-c", conf_of("p-log", log_file=path("nowhere/log"))], 74,
            path("nowhere/log"))


def traces_that_are_none():
    """a trace that is absent is exit 66, one that is none exit 65"""
    refuses(["mallectld", "-c", conf_of("t-none", backend="trace", trace_file=path("absent"))],
            66, path("absent"))
    for text in ("hello\n", "5,0,\n1,1,\n", "1,2,3,4\n"):
        file = write("trace", text)
        refuses(["mallectld", "-c", conf_of("t-bad", backend="trace", trace_file=file)],
                65, file)


def places_of_others():
    """directories that the user may not write are named, exit 77"""
    need_root()
    nobody = pwd.getpwnam("nobody")
    for name, option in (("o-state", "state_dir"), ("o-run", "run_dir"), ("o-sock", "socket")):
        os.makedirs(path(name))
        os.chown(path(name), nobody.pw_uid, nobody.pw_gid)
        os.makedirs(path("locked"), 0o755, exist_ok=True)
        conf = conf_of(name, **{option: path("locked/here")})
        refuses(["mallectld", "-c", conf], 77, path("locked"), user="nobody")
    os.makedirs(path("o-journal/state"))
    write("o-journal/state/journal.jsonl", "", 0o600)
    for folder in ("o-journal", "o-journal/state"):
        os.chown(path(folder), nobody.pw_uid, nobody.pw_gid)
    refuses(["mallectld", "-c", conf_of("o-journal")], 77, "journal.jsonl", user="nobody")


# --- a daemon ----------------------------------------------------------------------


class Daemon(Site):
    """mallectld with nodes on which nothing can start."""

    def __init__(self, **options):
        settings = {"backend": "static", "nodes": "n[1-3]", "node_cpus": 0,
                    "agent": "/bin/false"}
        settings.update(options)
        super().__init__(settings)
        self.socket = settings.get("socket", self.socket)
        os.chmod(self.dir, 0o755)

    def __enter__(self):
        try:
            self.start()
        except Exception:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def client(self, *argv):
        return [argv[0], "--server", self.socket] + list(argv[1:])

    def alive(self):
        check(self.daemon.poll() is None, "the daemon is gone")
        check("n2" in succeeds(self.client("malle-status", "nodes")), "no nodes")

    def submit(self):
        out = succeeds(self.client("malle-run", "--detach", "--spool", self.path("spool"),
                                   "--", "/bin/true"))
        return out.split()[-1].strip(".")


def missing_directories():
    """directories that are missing are made, with those above them"""
    with Daemon(socket=path("m/a/ctld.sock"), run_dir=path("m/b/run"),
                state_dir=path("m/c/state")) as d:
        check(os.path.isdir(path("m/b/run")), "no run_dir")
        check(os.stat(path("m/c/state")).st_mode & 0o777 == 0o700, "state_dir is open to others")
        check(os.stat(path("m/c/state/journal.jsonl")).st_mode & 0o777 == 0o600, "the journal is")
        check(d.daemon.poll() is None, "the daemon is gone")


def second_daemon():
    """a second daemon on the same journal or socket is told so, exit 75, and the first stays"""
    with Daemon() as d:
        refuses(["mallectld", "-c", d.path("malle.conf")], 75, "another mallectld")
        conf = conf_of("second", socket=d.socket)
        refuses(["mallectld", "-c", conf], 75, d.socket)
        d.alive()


def dead_socket():
    """a socket file that a dead daemon left is replaced, and a living end removes its own"""
    with Daemon() as d:
        d.kill_daemon()
        check(os.path.exists(d.socket), "no socket is left by kill -9")
        refuses(d.client("mallectl", "ping"), 69, d.socket)
        d.start()
        d.alive()
        check(d.kill_daemon(15) == 0, "exit code after SIGTERM")
        check(not os.path.exists(d.socket), "the socket is left after SIGTERM")


def full_clients():
    """answers of the daemon on a full disk are exit 74"""
    with Daemon() as d, open("/dev/full", "wb") as full:
        for argv in (("mallectl", "ping"), ("mallectl", "show", "config"), ("malle-status",),
                     ("malle-status", "--json"), ("malle-status", "nodes"),
                     ("malle-run", "--detach", "--spool", d.path("spool"), "--", "true")):
            refuses(d.client(*argv), 74, "standard output", stdout=full)
        d.alive()


def absent_things():
    """a job or node that is not there is named, exit 65"""
    with Daemon() as d:
        for argv in (("malle-status", "job", "77"), ("mallectl", "cancel", "77"),
                     ("mallectl", "pause", "77"), ("mallectl", "resume", "77"),
                     ("malle-status", "node", "n77")):
            refuses(d.client(*argv), 65, "77")


def wrong_user():
    """another user sees nodes, does not see jobs, and may not submit, cancel or pause: 77"""
    need_root()
    with Daemon() as d:
        job = d.submit()
        check("n2" in succeeds(d.client("malle-status", "nodes"), user="nobody"), "no nodes")
        succeeds(d.client("mallectl", "ping"), user="nobody")
        refuses(d.client("malle-run", "--fallback=fail", "--spool", "/tmp", "--", "true"), 77,
                "uid 0", user="nobody")
        for argv in (("cancel", job), ("cancel", "--force", job), ("pause", job),
                     ("resume", job)):
            refuses(d.client("mallectl", *argv), 77, "job %s" % job, user="nobody")
        refuses(d.client("malle-status", "job", job), 77, "job %s" % job, user="nobody")
        jobs = json.loads(succeeds(d.client("malle-status", "--json", "jobs"), user="nobody"))
        check(jobs["jobs"] == [], "sees %s" % jobs)
        check(d.job(job)["state"] == "waiting", "the job is %s" % d.job(job)["state"])


def users_daemon():
    """a daemon of a user takes jobs of that user, and root's no more than others'"""
    need_root()
    nobody = pwd.getpwnam("nobody")
    os.makedirs(path("users"), exist_ok=True)
    os.chown(path("users"), nobody.pw_uid, nobody.pw_gid)
    log = open(path("users.log"), "wb")
    daemon = subprocess.Popen(
        ["setpriv", "--reuid=nobody", "--clear-groups", "--", for_everybody("mallectld"), "-c",
         conf_of("users")], env=clean_env(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    log.close()
    server = path("users/ctld.sock")
    try:
        wait_for("nobody's daemon", lambda: tell(["mallectl", "--server", server, "ping"])[0] == 0,
                 10)
        submit = ["malle-run", "--server", server, "--detach", "--spool", path("users"),
                  "--fallback=fail", "--", "/bin/true"]
        refuses(submit, 77, "uid %d" % nobody.pw_uid)
        succeeds(submit, user="nobody")
    finally:
        daemon.terminate()
        check(daemon.wait(timeout=10) == 0, "the daemon's exit code")


# --- the journal -------------------------------------------------------------------


DAMAGE = (
    (b"#!@\n", ""),
    (b"\0\0\0\0\n", ""),
    (b"\x1b[31m\n", ""),
    (b"[1, 2]\n", "no event"),
    (b'{"t": 1}\n', "no event"),
    (b'{"t": 1, "event": "job"}\n', ""),
    (b'{"t": 1, "event": "job", "job": "9", "name": "x", "argv": ["x"]}\n', ""),
    (b'{"t": 1, "event": "claim", "claim": "c"}\n', "node"),
    (b'{"t": 1, "event": "world", "job": "1", "generation": 1, "nodes": [3]}\n', "node"),
    (b'{"t": 1, "event": "world", "job": "1", "generation": 1, "nodes": ["' + b"n" * 300 +
     b'"]}\n', "node"),
)


def damaged_journal():
    """a damaged journal is refused with its line, exit 65, and is left as it was"""
    with Daemon() as d:
        d.submit()
        d.kill_daemon(15)
        journal = d.path("state/journal.jsonl")
        with open(journal, "rb") as file:
            whole = file.read().splitlines(keepends=True)
        first = [i for i, line in enumerate(whole) if b'"event":"job"' in line][0] + 1
        twice = whole[first - 1]
        for damage, part in DAMAGE + ((twice, "job 1"),):
            text = b"".join(whole[:first]) + damage + b"".join(whole[first:])
            with open(journal, "wb") as file:
                file.write(text)
            refuses(["mallectld", "-c", d.path("malle.conf")], 65,
                    "%s:%d: " % (journal, first + 1), part)
            with open(journal, "rb") as file:
                check(file.read() == text, "the journal was changed for %r" % damage)
        with open(journal, "wb") as file:
            file.write(b"".join(whole) + b'{"t": 1, "eve')
        d.start()
        check(d.job(1)["state"] == "waiting", "the job is gone with a torn line")


# --- strangers on the socket ---------------------------------------------------------


def frame(kind, body=b"{}", version=VERSION, magic=0x4D414C4C, length=None, request=0):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    size = len(body) if length is None else length
    return struct.pack(">IHHII", magic, version, kind, size, request) + body


def hello(**body):
    return frame(HELLO, dict({"role": "client", "program": "stranger 0"}, **body))


class Stranger:
    def __init__(self, server, data=b""):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(server)  # waits while the backlog is full
        self.sock.settimeout(20)
        try:
            self.sock.sendall(data)
        except OSError:
            pass  # it has hung up already: as it should

    def frames(self, until=None):
        """What it says until it hangs up, or until a kind of message."""
        data, found = b"", []
        while not found or found[-1][0] != until:
            try:
                piece = self.sock.recv(65536)
            except ConnectionResetError:
                break
            if not piece:
                break
            data += piece
            while len(data) >= 16:
                size = struct.unpack(">IHHII", data[:16])[3]
                if len(data) < 16 + size:
                    break
                kind, body = struct.unpack(">IHHII", data[:16])[2], data[16:16 + size]
                found.append((kind, json.loads(body.split(b"\0")[0] or b"{}")))
                data = data[16 + size:]
        self.sock.close()
        return found


GARBAGE = (
    ("random bytes", os.urandom(4096)),
    ("text", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    ("a wrong magic", frame(HELLO, magic=0x4D414C4D)),
    ("a length over 4 MiB", frame(HELLO, length=0xFFFFFFFF)),
    ("a body that is no JSON", frame(HELLO, b"{{{{")),
    ("a body that is an array", frame(HELLO, b"[]")),
    ("a body with a tail", frame(HELLO, b'{"role":"client"} x')),
    ("deep nesting", frame(HELLO, b'{"a":' + b"[" * 100000)),
    ("an unknown type", frame(999)),
    ("no hello first", frame(PING, request=1)),
    ("hello without a role", frame(HELLO)),
    ("hello with a role of a wrong kind", hello(role=3)),
    ("a role that has no business here", hello(role="worker")),
    ("an unknown type after hello", hello() + frame(999)),
    ("garbage after hello", hello() + b"\xff" * 64),
    ("a length over 4 MiB after hello", hello() + frame(PING, length=5 << 20)),
)


def garbage_on_the_socket():
    """garbage ends the stranger's connection and nothing else"""
    with Daemon() as d:
        silent = Stranger(d.socket)
        began = time.monotonic()
        half = Stranger(d.socket, hello()[:9])
        for what, data in GARBAGE:
            said = Stranger(d.socket, data).frames()
            check(said == [] or said[-1][0] in (REFUSE, WELCOME),
                  "%s is answered %s" % (what, said))
            check(d.daemon.poll() is None, "%s ended the daemon" % what)
        Stranger(d.socket, hello() + frame(PING)).sock.close()
        Stranger(d.socket, frame(HELLO, length=100)).sock.close()
        d.alive()
        for stranger in (silent, half):
            check(all(kind == REFUSE for kind, _ in stranger.frames()), "silence is welcome")
        took = time.monotonic() - began
        check(8 < took < 16, "silence was borne for %.1f s" % took)
        d.alive()


def crowd_on_the_socket():
    """several hundred silent strangers keep nobody else out"""
    with Daemon() as d:
        crowd = [Stranger(d.socket) for _ in range(600)]
        succeeds(d.client("mallectl", "ping"))
        for stranger in crowd:
            stranger.sock.close()
        d.alive()


def other_versions():
    """another version of the protocol is refused with both versions in words"""
    with Daemon() as d:
        for version in (0, VERSION + 1, 65535):
            said = Stranger(d.socket, frame(HELLO, {"role": "client"}, version=version)).frames()
            check(len(said) == 1 and said[0][0] == REFUSE, "version %d: %s" % (version, said))
            text = said[0][1]["text"]
            check(said[0][1]["code"] == 69, "code %s" % said)
            check(str(version) in text and str(VERSION) in text.replace(str(version), "", 1),
                  "says %r" % text)
        d.alive()


def false_agents():
    """an agent for a claim that is not open is refused with 77"""
    with Daemon() as d:
        greeting = hello(role="agent") + frame(50, {
            "node": "n1", "claim": "x" * 32, "pid": 1, "address": "/nowhere"}, request=1)
        said = Stranger(d.socket, greeting).frames(until=REFUSE)
        check(said[-1][0] == REFUSE and said[-1][1]["code"] == 77, "it is told %s" % said)
        d.alive()


def main():
    global work
    work = tempfile.mkdtemp(prefix="malle-bad.", dir="/tmp")
    os.chmod(work, 0o755)
    try:
        return run([skipping(test) for test in (
            unknown_options, missing_values, bad_arguments, help_and_version, full_output,
            unreadable_files, forbidden_files, bad_data, broken_configurations,
            example_is_current, absent_daemon, absent_environment, places_in_the_way,
            traces_that_are_none, places_of_others, missing_directories, second_daemon,
            dead_socket, full_clients, absent_things, wrong_user, users_daemon,
            damaged_journal, garbage_on_the_socket, crowd_on_the_socket, other_versions,
            false_agents)])
    finally:
        shutil.rmtree(work, ignore_errors=True)


def skipping(test):
    def body():
        try:
            test()
        except Skip as why:
            print("skip: %s: %s" % (test.__doc__, why))
    body.__doc__, body.__name__ = test.__doc__, test.__name__
    return body


sys.exit(main())
