#!/usr/bin/env python3
"""0110-agent-mpi.t - mpirun through malle-rsh and agents, the daemon a test."""
import os
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agent_peer import Relay, Scene, alive, processes_of, run_cases, start_world, wait_for  # noqa: E402

NODES = ("n1", "n2", "n3")


def program(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def named(agent, name):
    return [pid for pid in processes_of(agent) if program(pid).startswith(name)]


def begin(scene, at_least=1):
    """A world of two workers on each of three nodes, training."""
    relay = Relay(scene.links)
    for node in NODES:
        start_world(scene.links[node], scene.root, nodes=NODES, nproc=2, launcher="mpi")
    relay.all(NODES, "world.ready", ready=2)
    relay.send(NODES, "world.go", job="j1", generation=1)
    relay.until(lambda: any(msg["step"] >= at_least for msg in relay.heard["n1"]
                            if msg.name == "world.progress"), "steps")
    return relay


def agree_and_leave(relay, proposal=1):
    step = relay.last_of("n1", "world.progress")["step"] + 30
    relay.send(NODES, "world.propose", job="j1", generation=1, proposal=proposal,
               step=step, verdict="rescale")
    relay.all(NODES, "world.answer", proposal=proposal, agreed=True)
    relay.send(NODES, "world.commit", job="j1", generation=1, proposal=proposal)
    relay.all(NODES, "world.left", step=step)


def is_gone(scene):
    """Nothing of a world is left on any node that still has an agent."""
    return not [pid for agent in scene.agents.values() for pid in processes_of(agent)
                if not program(pid).startswith("malle-agent")]  # a copy to the spool


def starts_and_leaves():
    """six ranks on three nodes train, leave at one step, and are gone"""
    with Scene(nodes=NODES) as scene:
        relay = begin(scene)
        agree_and_leave(relay)
        relay.all(NODES, "world.exited", code=0)
        assert relay.last_of("n1", "world.exited")["launcher"]
        assert is_gone(scene)
        for agent in scene.agents.values():
            assert os.listdir(agent.rundir) == ["agent.sock"]


def says_nothing_of_its_own():
    """of mpirun's own words nothing reaches the user"""
    with Scene(nodes=NODES) as scene:
        relay = begin(scene)
        agree_and_leave(relay)
        relay.all(NODES, "world.exited")
        text = b"".join(m.raw for m in relay.heard["n1"] if m.name == "job.output")
        assert sorted(line.split()[0] for line in text.splitlines()) == [b"rank"] * 6, text


def notices_a_dead_worker():
    """a worker killed with -9 ends the world within two seconds: 137"""
    with Scene(nodes=NODES) as scene:
        relay = begin(scene)
        os.kill(named(scene.agents["n3"], "python")[0], signal.SIGKILL)
        begun = time.monotonic()
        relay.all(("n1",), "world.exited", code=137)
        assert time.monotonic() - begun < 2
        relay.send(("n2", "n3"), "world.kill", job="j1", generation=1, grace_s=0)
        relay.all(NODES, "world.exited")
        assert is_gone(scene)


def notices_a_dead_agent():
    """an agent killed with -9 ends the world on the other nodes too"""
    with Scene(nodes=NODES) as scene:
        relay = begin(scene)
        victim = scene.agents["n2"]
        theirs = processes_of(victim)
        victim.process.kill()
        victim.process.wait()
        relay.links.pop("n2").close()
        relay.all(("n1",), "world.exited")
        assert relay.last_of("n1", "world.exited")["code"] != 0
        relay.send(("n3",), "world.kill", job="j1", generation=1, grace_s=0)
        relay.all(("n3",), "world.exited")
        wait_for(lambda: not [pid for pid in theirs if alive(pid)], "the dead node's workers")
        assert is_gone(scene)


def is_killed():
    """world.kill on all nodes leaves nothing within its grace, and says nothing"""
    with Scene(nodes=NODES) as scene:
        relay = begin(scene)
        begun = time.monotonic()
        relay.send(NODES, "world.kill", job="j1", generation=1, grace_s=2)
        relay.all(NODES, "world.exited")
        assert time.monotonic() - begun < 3
        assert is_gone(scene)
        assert not [m.raw for m in relay.heard["n1"] if m.get("stream") == 2]


def trains_without_a_daemon():
    """a world outlives its daemon, and the next one finds it training"""
    with Scene(nodes=NODES) as scene:
        begin(scene)
        scene.restart_daemon("second")
        links = {}
        for _ in NODES:
            link = scene.daemon.accept()
            links[link.hello["node"]] = link
            assert [m["phase"] for m in link.told if m.name == "agent.world"] == ["running"]
        relay = Relay(links)
        relay.until(lambda: any(m.name == "world.progress" for m in relay.heard["n1"]), "steps")
        agree_and_leave(relay)
        relay.all(NODES, "world.exited", code=0)
        assert is_gone(scene)


def fails_without_a_daemon():
    """a start for which nobody relays ends with a code, not in waiting"""
    with Scene(nodes=NODES) as scene:
        for node in NODES:
            start_world(scene.links[node], scene.root, nodes=NODES, launcher="mpi")
        scene.links["n1"].expect("rsh.request")
        scene.restart_daemon("second")
        for _ in NODES:
            link = scene.daemon.accept()
            scene.links[link.hello["node"]] = link
        told = [m for m in scene.links["n1"].told if m.name == "world.exited"]
        exited = told[0] if told else scene.links["n1"].expect("world.exited")
        assert exited["code"] != 0 and exited["launcher"], exited


def finds_no_such_node():
    """a node that is not there fails the start in words"""
    with Scene(nodes=("n1",)) as scene:
        start_world(scene.link, scene.root, nodes=("n1", "n2"), launcher="mpi")
        text, msg = b"", None
        while msg is None or msg.name != "world.exited":
            msg = scene.link.expect("rsh.request", "job.output", "world.exited")
            text += msg.raw
            if msg.name == "rsh.request":
                scene.link.send("refuse", msg.id, code=69, text=f"{msg['node']} is away")
        assert msg["code"] != 0 and b"malle-rsh: 240.0.0." in text and b"is away" in text, text


if __name__ == "__main__":
    if not shutil.which("mpirun") or not shutil.which("orted"):
        print("skip: there is no mpirun")
        sys.exit(0)
    sys.exit(run_cases([
        starts_and_leaves, says_nothing_of_its_own, notices_a_dead_worker,
        notices_a_dead_agent, is_killed, trains_without_a_daemon,
        fails_without_a_daemon, finds_no_such_node]))
