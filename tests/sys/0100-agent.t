#!/usr/bin/env python3
"""0100-agent.t - a real malle-agent between a daemon and workers that are tests."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agent_peer import (Agent, Daemon, Link, Scene, alive,  # noqa: E402
                        children_of, processes_of, run_cases, start_world, wait_for)

BIN = os.path.abspath(os.path.join(os.environ.get("MALLE_BUILD", "build"), "bin"))


def train(link, nproc=1, job="j1", generation=1, at_least=1, **go):
    """From started to a step."""
    link.expect("world.started", job=job, generation=generation)
    link.expect("world.ready", ready=nproc, generation=generation)
    link.send("world.go", job=job, generation=generation, **go)
    while link.expect("world.progress", generation=generation)["step"] < at_least:
        pass


def leave(link, job="j1", generation=1, verdict="rescale", proposal=1):
    """Agree on a step a little ahead, and get there."""
    step = link.expect("world.progress", generation=generation)["step"] + 10
    link.send("world.propose", job=job, generation=generation, proposal=proposal,
              step=step, verdict=verdict)
    answer = link.expect("world.answer", proposal=proposal)
    assert answer["agreed"], answer
    link.send("world.commit", job=job, generation=generation, proposal=proposal)
    left = link.expect("world.left", generation=generation)
    assert left["step"] == step and left["saved"] and not left["finished"], left
    assert left["cursor"] == step * 8, left
    return step


def says_who_it_is():
    """an agent says its node, its claim and where peers find it"""
    with Scene() as scene:
        hello = scene.link.hello
        assert hello["node"] == "n1" and hello["claim"] == scene.agent.claim
        assert hello["pid"] == scene.agent.process.pid and hello["cpus"] > 0
        assert os.stat(hello["address"]).st_mode & 0o777 == 0o600
        assert scene.link.told == []


def trains_and_leaves_together():
    """two workers train, agree on a step, leave at it and are gone"""
    with Scene() as scene:
        start_world(scene.link, scene.root, nproc=2)
        train(scene.link, nproc=2)
        leave(scene.link)
        gone = scene.link.expect("world.exited")
        assert gone["launcher"] and gone["code"] == 0, gone
        # A copy to the spool may still be at work.
        wait_for(lambda: not processes_of(scene.agent), "all to be gone")


def refuses_a_step_that_is_past():
    """a step that is past is answered by no and the furthest step"""
    with Scene() as scene:
        start_world(scene.link, scene.root, nproc=2)
        train(scene.link, nproc=2, at_least=5)
        scene.link.send("world.propose", job="j1", generation=1, proposal=1, step=2,
                        verdict="rescale")
        answer = scene.link.expect("world.answer", proposal=1)
        assert not answer["agreed"] and answer["step"] >= 5, answer
        leave(scene.link, proposal=2)


def waits_and_is_withdrawn():
    """workers that wait at an agreed step go on when it is withdrawn"""
    with Scene() as scene:
        start_world(scene.link, scene.root)
        train(scene.link, at_least=3)
        scene.link.send("world.propose", job="j1", generation=1, proposal=1, step=6,
                        verdict="rescale")
        if scene.link.expect("world.answer", proposal=1)["agreed"]:
            scene.link.expect("world.progress", step=6)
            scene.link.send("world.withdraw", job="j1", generation=1, proposal=1)
        assert scene.link.expect("world.progress", step=9)


def passes_a_state_on():
    """the next world on the node begins with the state that the last one left"""
    with Scene() as scene:
        start_world(scene.link, scene.root)
        train(scene.link)
        step = leave(scene.link)
        scene.link.expect("world.exited")
        start_world(scene.link, scene.root, generation=2)
        train(scene.link, generation=2, at_least=step + 1, state_step=step,
              state_node="n1", state_address=scene.link.hello["address"])


def fetches_a_state_from_a_peer():
    """a state of three megabytes is fetched from the node that holds it"""
    with Scene(nodes=("n1", "n2")) as scene:
        start_world(scene.link, scene.root)
        train(scene.link)
        step = leave(scene.link)
        scene.link.expect("world.exited")
        other = scene.links["n2"]
        start_world(other, scene.root, generation=2, nodes=("n2",))
        train(other, generation=2, at_least=step + 1, state_step=step, state_node="n1",
              state_address=scene.link.hello["address"])


def says_that_a_state_is_missing():
    """a state that nobody has ends the world with code 70 and the reason"""
    with Scene(nodes=("n1", "n2")) as scene:
        start_world(scene.link, scene.root)
        scene.link.expect("world.ready", ready=1)
        scene.link.send("world.go", job="j1", generation=1, state_step=77, state_node="n2",
                        state_address=scene.links["n2"].hello["address"])
        gone = scene.link.expect("world.exited")
        assert gone["code"] == 70 and "no state of step 77" in gone["reason"], gone


def reports_a_failing_worker():
    """a worker that fails ends the others, and its code is the world's"""
    with Scene() as scene:
        start_world(scene.link, scene.root, nproc=2, traits="step=5 code=9")
        scene.link.expect("world.ready", ready=2)
        scene.link.send("world.go", job="j1", generation=1)
        gone = scene.link.expect("world.exited")
        assert gone["code"] == 9 and gone["launcher"], gone


def says_that_a_program_is_missing():
    """a program that does not exist is code 127 and a line of output"""
    with Scene() as scene:
        start_world(scene.link, scene.root, argv=["no-such-program"])
        text = scene.link.expect("job.output").raw
        assert b"no-such-program" in text and text.count(b"\n") == 1, text
        assert scene.link.expect("world.exited")["code"] == 127


def ends_a_finished_world():
    """a world that has consumed everything says finished"""
    with Scene() as scene:
        start_world(scene.link, scene.root, nproc=2, traits="finish=7")
        scene.link.expect("world.ready", ready=2)
        scene.link.send("world.go", job="j1", generation=1)
        left = scene.link.expect("world.left")
        assert left["finished"] and left["step"] == 7, left
        assert scene.link.expect("world.exited")["code"] == 0


def gives_a_clean_environment():
    """workers get torchrun's contract and nothing of the scheduler's step"""
    with Scene() as scene:
        start_world(scene.link, scene.root, nproc=2, traits="env", restarts=3)
        got, end = b"", time.monotonic() + 10
        while got.count(b"WORLD_SIZE=2\n") < 4 and time.monotonic() < end:
            got += scene.link.expect("job.output").raw
        lines = got.decode().splitlines()
        for wanted in ("RANK=0", "RANK=1", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
                       "GROUP_RANK=0", "MALLE_JOB_ID=j1", "MALLE_GENERATION=1",
                       "MALLE_MIN_NODES=1", "MALLE_MAX_NODES=8", "MALLE_RESTART_COUNT=3",
                       "MALLE_NODE=n1", "MASTER_ADDR=127.0.0.1"):
            assert wanted in lines, wanted
        assert not [x for x in lines if x.startswith("SLURM_") or x == "RANK=99"], lines
        assert not [x for x in lines if x.startswith("MALLE_CTLD")], lines


def carries_all_output():
    """two megabytes of output arrive, and lie in the file"""
    with Scene() as scene:
        path = os.path.join(scene.root, "out")
        start_world(scene.link, scene.root, traits="chatty", output=path)
        got = b""
        while not got.endswith(b"the last line\n"):
            got += scene.link.expect("job.output", stream=1).raw
        assert got.count(b"\n") == 20001
        wait_for(lambda: os.path.getsize(path) >= len(got), "the file")


def keeps_output_while_the_daemon_is_away():
    """output without a daemon never stops workers; what was dropped is said"""
    with Scene() as scene:
        path = os.path.join(scene.root, "out")
        start_world(scene.link, scene.root, traits="chatty", output=path)
        scene.link.expect("world.started")
        scene.restart_daemon("second")
        wait_for(lambda: os.path.exists(path) and
                 open(path, "rb").read().endswith(b"the last line\n"), "all output")
        scene.adopt()
        first = scene.link.expect("job.output", stream=2).raw
        assert first.startswith(b"[malle: ") and b"bytes of output dropped" in first, first
        got = b""
        while not got.endswith(b"the last line\n"):
            got += scene.link.expect("job.output", stream=1).raw
        assert len(got) <= 256 << 10


def survives_its_daemon():
    """workers train on without a daemon and are told to the next one"""
    with Scene() as scene:
        start_world(scene.link, scene.root, nproc=2)
        train(scene.link, nproc=2, at_least=3)
        scene.restart_daemon("second")
        told = scene.adopt()
        world = [msg for msg in told if msg.name == "agent.world"][0]
        assert world["phase"] == "running" and world["step"] >= 3, world
        assert world["world_nodes"] == ["n1"] and world["generation"] == 1
        leave(scene.link, proposal=1)
        scene.link.expect("world.exited")


def remembers_an_end_for_the_daemon():
    """a world that ended without a daemon is told with its code"""
    with Scene() as scene:
        start_world(scene.link, scene.root, traits="finish=12")
        scene.link.expect("world.ready", ready=1)
        scene.link.send("world.go", job="j1", generation=1)
        scene.link.expect("world.progress")
        scene.restart_daemon("second")
        wait_for(lambda: not processes_of(scene.agent), "the worker's end")
        told = scene.adopt()
        names = [msg.name for msg in told]
        if "world.exited" not in names:
            told.append(scene.link.expect("world.exited"))
        left = [msg for msg in told if msg.name == "world.left"][0]
        assert left["finished"] and left["step"] == 12, left
        assert [m for m in told if m.name == "world.exited"][0]["code"] == 0


def kills_a_world():
    """world.kill ends stubborn workers, and an unknown world is gone already"""
    with Scene() as scene:
        start_world(scene.link, scene.root, nproc=2, traits="stubborn")
        train(scene.link, nproc=2)
        begun = time.monotonic()
        scene.link.send("world.kill", job="j1", generation=1, grace_s=0.5)
        scene.link.expect("world.exited", generation=1)
        assert 0.4 < time.monotonic() - begun < 3
        scene.link.send("world.kill", job="j9", generation=4, grace_s=0)
        assert scene.link.expect("world.exited", job="j9")["code"] == 0


def gives_a_node_back_clean():
    """a release finds a stubborn worker and an orphan, and leaves nothing"""
    with Scene() as scene:
        start_world(scene.link, scene.root, traits="stubborn orphan")
        train(scene.link)
        mine = children_of(scene.agent.process.pid)
        assert len(mine) == 2, mine
        scene.link.send("node.release", grace_s=4)
        released = scene.link.expect("node.released")
        assert released["clean"] and released["killed"] >= 2, released
        assert released["took_s"] < 4, released
        assert scene.agent.wait() == 0
        assert not [pid for pid in mine if alive(pid)], mine
        assert not os.path.exists(scene.agent.rundir)
        assert not os.listdir(scene.agent.shm)


def spools_before_it_goes():
    """a release spools the states that it is told to, and says so"""
    with Scene(MALLE_SPOOL_S="1000") as scene:
        start_world(scene.link, scene.root)
        train(scene.link, at_least=25)
        step = leave(scene.link, verdict="rescale")
        scene.link.expect("world.exited")
        scene.link.send("node.release", grace_s=5, spool=["j1"])
        scene.link.expect("state.saved", spooled=True, step=step)
        assert scene.link.expect("node.released")["clean"]
        assert scene.agent.wait() == 0
        with open(os.path.join(scene.root, "spool/state"), encoding="ascii") as file:
            assert int(file.read().split()[0]) == step
        assert os.listdir(os.path.join(scene.root, "spool")) == ["state"]


def passes_the_notice_on():
    """SIGTERM is a notice to the daemon, whose release ends the agent with 0"""
    with Scene(MALLE_GRACE_S="6") as scene:
        start_world(scene.link, scene.root)
        train(scene.link)
        scene.agent.process.send_signal(signal.SIGTERM)
        assert scene.link.expect("node.notice")["grace_s"] == 6
        leave(scene.link)
        scene.link.send("node.release", grace_s=5)
        assert scene.link.expect("node.released")["clean"]
        assert scene.agent.wait() == 0


def goes_alone_in_time():
    """a notice that nobody answers ends everything before the deadline: 143"""
    with Scene(MALLE_GRACE_S="3") as scene:
        start_world(scene.link, scene.root, traits="stubborn")
        train(scene.link)
        begun = time.monotonic()
        scene.agent.process.send_signal(signal.SIGTERM)
        assert scene.agent.wait() == 143
        assert 1.4 < time.monotonic() - begun < 3
        assert not processes_of(scene.agent)


def goes_without_a_daemon():
    """without a daemon for long enough the agent ends its workers: 69"""
    with Scene(MALLE_ORPHAN_S="1") as scene:
        start_world(scene.link, scene.root)
        train(scene.link)
        scene.daemon.close()
        scene.link.close()
        assert scene.agent.wait() == 69
        assert not processes_of(scene.agent)


def dies_with_its_workers():
    """workers of an agent that is killed with -9 die with it"""
    with Scene() as scene:
        start_world(scene.link, scene.root, nproc=2)
        train(scene.link, nproc=2)
        scene.agent.process.kill()
        scene.agent.wait()
        wait_for(lambda: not processes_of(scene.agent), "the workers' end")


def lets_nobody_else_in():
    """a peer may not say what a worker says, and a stranger's role is refused"""
    with Scene() as scene:
        for role, name in (("peer", "worker.ready"), ("worker", "worker.ready"),
                           ("rsh", "worker.join")):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(scene.link.hello["address"])
            link = Link(sock)
            link.send("hello", role=role)
            link.expect("welcome")
            body = {"job": "j", "generation": 1, "rank": 0, "local_rank": 0, "pid": 1}
            link.send(name, 5, **(body if name == "worker.join" else {}))
            assert link.expect("refuse")["code"] == 77
            link.close()
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(scene.link.hello["address"])
        link = Link(sock)
        link.send("hello", role="client")
        assert link.expect("refuse")["code"] == 77
        link.close()


def starts_remotely_only_orted():
    """a remote start of anything but orted is not carried out"""
    with Scene() as scene:
        start_world(scene.link, scene.root, launcher="mpi", nodes=("n9", "n1"))
        scene.link.expect("world.started", pid=0)
        scene.link.send("rsh.start", job="j1", generation=1, session=4,
                        argv=["/bin/touch", os.path.join(scene.root, "touched")])
        assert scene.link.expect("rsh.exited", session=4)["code"] == 69
        assert not os.path.exists(os.path.join(scene.root, "touched"))


def run(argv, **env):
    result = subprocess.run(argv, env=dict({"PATH": os.environ["PATH"]}, **env), text=True,
                            capture_output=True, timeout=20, check=False)
    return result.returncode, result.stderr


def fails_in_one_line():
    """wrong options, a missing environment, an absent daemon: code and one line"""
    agent, rsh = os.path.join(BIN, "malle-agent"), os.path.join(BIN, "malle-rsh")
    root = tempfile.mkdtemp(prefix="malle-t.")
    env = {"MALLE_CTLD": root + "/none", "MALLE_NODE": "n1", "MALLE_CLAIM": "c",
           "MALLE_RUNDIR": root + "/run", "MALLE_SHM": root, "MALLE_LOG": "err"}
    socket_env = {"MALLE_SOCKET": root + "/none", "MALLE_JOB_ID": "j",
                  "MALLE_GENERATION": "1"}
    cases = [
        ([agent, "--frob"], {}, 64), ([agent, "word"], {}, 64),
        ([agent, "--exec"], {}, 64), ([agent], {}, 78),
        ([agent], dict(env, MALLE_CLAIM="a/b"), 78),
        ([agent], dict(env, MALLE_GRACE_S="soon"), 78),
        ([agent], dict(env, MALLE_SHM=root + "/none"), 70),
        ([agent, "--exec", "--", "true"], {}, 78),
        ([agent, "--exec", "--", "no-such"],
         {"OMPI_COMM_WORLD_" + x: "1" for x in ("RANK", "SIZE", "LOCAL_RANK",
                                                "LOCAL_SIZE")}, 127),
        ([agent], env, 69),
        ([rsh, "--frob", "h", "orted"], {}, 64), ([rsh, "h"], {}, 64),
        ([rsh, "h", "orted"], {}, 78), ([rsh, "h", "rm", "-rf"], socket_env, 64),
        ([rsh, "h", "orted", "$(id)"], socket_env, 64),
        ([rsh, "h", "orted"], socket_env, 69),
    ]
    for argv, environment, code in cases:
        got, text = run(argv, **environment)
        assert got == code, (argv, got, code, text)
        assert text.count("\n") == 1 and text.startswith("malle-"), (argv, text)
    shutil.rmtree(root)


def is_refused():
    """an agent whose claim is over says why and exits 77"""
    root = tempfile.mkdtemp(prefix="malle-t.")
    daemon, agent = Daemon(os.path.join(root, "ctld.sock")), Agent(root)
    daemon.accept(refuse="node n1 has no open claim")
    assert agent.wait() == 77
    agent.end()
    daemon.close()
    with open(os.path.join(root, "n1.log"), encoding="ascii") as file:
        assert "malle-agent: " in file.read().splitlines()[-1]
    shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(run_cases([
        says_who_it_is, trains_and_leaves_together, refuses_a_step_that_is_past,
        waits_and_is_withdrawn, passes_a_state_on, fetches_a_state_from_a_peer,
        says_that_a_state_is_missing, reports_a_failing_worker,
        says_that_a_program_is_missing, ends_a_finished_world,
        gives_a_clean_environment, carries_all_output,
        keeps_output_while_the_daemon_is_away, survives_its_daemon,
        remembers_an_end_for_the_daemon, kills_a_world, gives_a_node_back_clean,
        spools_before_it_goes, passes_the_notice_on, goes_alone_in_time,
        goes_without_a_daemon, dies_with_its_workers, lets_nobody_else_in,
        starts_remotely_only_orted, is_refused, fails_in_one_line]))
