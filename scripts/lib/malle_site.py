"""malle_site.py - a malle of one's own: a daemon and its files in one directory.

Used by the demo and by the tests of the whole.  Everything that is started
through it is ended by Site.close(), by its process id; nothing else is touched.
"""

import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def build_dir():
    return os.path.join(ROOT, os.environ.get("MALLE_BUILD", "build"))


def program(name):
    return os.path.join(build_dir(), "bin", name)


def wait_for(what, condition, limit_s, every_s=0.05):
    """Wait until condition() is true; its value.  RuntimeError at the limit."""
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise RuntimeError("waited %g s for %s" % (limit_s, what))
        time.sleep(every_s)


class Site:
    def __init__(self, options, keep=False):
        # Unix socket paths are short; so is this one.
        self.dir = tempfile.mkdtemp(prefix="malle-", dir="/tmp")
        self.keep = keep
        self.socket = os.path.join(self.dir, "ctld.sock")
        self.daemon = None
        self.clients = []
        self.agents = set()
        settings = {
            "socket": self.socket,
            "run_dir": os.path.join(self.dir, "run"),
            "state_dir": os.path.join(self.dir, "state"),
            "agent": program("malle-agent"),
        }
        settings.update(options)
        with open(self.path("malle.conf"), "w") as conf:
            for name, value in settings.items():
                if isinstance(value, bool):
                    value = "true" if value else "false"
                elif isinstance(value, str):
                    value = '"%s"' % value
                conf.write("%s = %s\n" % (name, value))

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    # --- the daemon ---------------------------------------------------------

    def start(self):
        log = open(self.path("ctld.log"), "ab")
        self.daemon = subprocess.Popen(
            [program("mallectld"), "-c", self.path("malle.conf")],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.dir)
        log.close()
        wait_for("the daemon", self.answers, 10)

    def answers(self):
        if self.daemon.poll() is not None:
            raise RuntimeError("mallectld ended with %d, see %s" %
                               (self.daemon.returncode, self.path("ctld.log")))
        return self.ctl("ping").returncode == 0

    def kill_daemon(self, signo=signal.SIGKILL):
        self.daemon.send_signal(signo)
        return self.daemon.wait(timeout=10)

    # --- clients --------------------------------------------------------------

    def ctl(self, *args):
        return subprocess.run([program("mallectl"), "--server", self.socket] + list(args),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def status(self, *what):
        done = subprocess.run(
            [program("malle-status"), "--server", self.socket, "--json"] + list(what),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            return None
        status = json.loads(done.stdout)
        for node in status.get("nodes", []):
            if node["agent_pid"]:
                self.agents.add(node["agent_pid"])
        return status

    def job(self, job):
        status = self.status("job", str(job))
        return status and status["job"]

    def run(self, args, log):
        """malle-run in the background, its output to a file."""
        out = open(self.path(log), "ab")
        client = subprocess.Popen(
            [program("malle-run"), "--server", self.socket,
             "--spool", self.path("spool")] + args,
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            cwd=self.dir, start_new_session=True)
        out.close()
        self.clients.append(client)
        return client

    def read(self, name):
        try:
            with open(self.path(name), errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def journal(self, event=None):
        records = []
        for line in self.read("state/journal.jsonl").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if event is None or record["event"] == event:
                records.append(record)
        return records

    # --- the end --------------------------------------------------------------

    def claims(self):
        return [record["claim"] for record in self.journal("claim")]

    def left_over(self):
        """Processes that carry a claim of this site: pid and command."""
        claims = {("MALLE_CLAIM=%s" % claim).encode() for claim in self.claims()}
        left = []
        for directory in glob.glob("/proc/[0-9]*"):
            try:
                with open(directory + "/environ", "rb") as file:
                    marks = set(file.read().split(b"\0"))
                if marks & claims:
                    with open(directory + "/cmdline", "rb") as file:
                        left.append((int(directory[6:]), file.read().replace(b"\0", b" ").decode()))
            except OSError:
                continue
        return left

    def close(self):
        self.status()
        for client in self.clients:
            if client.poll() is None:
                client.kill()
                client.wait()
        if self.daemon and self.daemon.poll() is None:
            self.daemon.terminate()
            try:
                self.daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
        for pid, command in self.left_over():
            if "malle-agent" in command:
                self.end(pid, signal.SIGTERM)
        try:
            wait_for("agents to go", lambda: not self.left_over(), 15)
        except RuntimeError:
            for pid, command in self.left_over():
                self.end(pid, signal.SIGKILL)
        self.remove_cgroups()
        if not self.keep:
            shutil.rmtree(self.dir, ignore_errors=True)

    @staticmethod
    def end(pid, signo):
        try:
            os.kill(pid, signo)
        except OSError:
            pass

    def remove_cgroups(self):
        for start in self.journal("start")[:1]:
            for parent in glob.glob("/sys/fs/cgroup/cpu*/malle-%s" % start["name"]) + \
                    glob.glob("/sys/fs/cgroup/malle-%s" % start["name"]):
                for child, _, _ in os.walk(parent, topdown=False):
                    try:
                        os.rmdir(child)
                    except OSError:
                        pass


def rescales(site):
    """Finished rescales of running jobs, as the journal has them."""
    return [r for r in site.journal("rescale") if r["result"] == "done" and r["from"] > 0]


def quantile(values, q):
    values = sorted(values)
    return values[int(q * (len(values) - 1) + 0.5)] if values else 0.0


def check_ledger(directory):
    """malle-ledger's verdict on a job's ledger."""
    done = subprocess.run([program("malle-ledger"), "check", "--json", directory],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise RuntimeError("malle-ledger: %s" % (done.stderr.strip() or "no answer"))


def unpack_fashion(directory, source="/usr/share/datasets/fashion-mnist"):
    """The data set once unpacked, so that workers map it instead of inflating."""
    import gzip
    os.makedirs(directory, exist_ok=True)
    for path in glob.glob(source + "/*.gz"):
        with gzip.open(path) as packed:
            with open(os.path.join(directory, os.path.basename(path)[:-3]), "wb") as plain:
                shutil.copyfileobj(packed, plain)
    return directory
