"""A switch dies under 200 running jobs, and comes back: `make e2e-switch`.

432 nodes as the vendor builds them: dragonflies of two, of which eight are a switchbox. First a
switchbox dies: the optical ports of its nodes are down, and its cluster manager has all of its
machines NotReady. Then, once ports have been up for long enough to count, an InfiniBand leaf, at
which sixteen dragonflies have one node each. Told is after how long everything that users read
says so, by the real clock; what is wrong is told by name, and ends the run with 1. New jobs go
beside it, the one for which only nodes below it are left waits, and goes there when it is back.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aiohttp import ClientError, ClientSession

from tests.clustermanager.control import command
from tests.discovery.fabrics import fours
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, own_cluster
from tests.e2e.controlplane.kwok import LEASE_S
from tests.e2e.controlplane.tasks import ended
from tests.e2e.kubernetes.agreement import statuses
from tests.e2e.scheduling.gang_master import GangMaster, gang_master
from tests.e2e.scheduling.jobs import BATCH_JOBS, PODS, owner_of, template
from tests.e2e.scheduling.test_labelled_nodes import HYPERNODES, RIGHTS
from tests.support.fabric import Built, rails
from topo.discovery.suspicion.machine import QUIET_S
from topo.gangs.stamp import Stamp
from topo.model.machine import NetworkPort, NodeFacts, PortState
from topo.sim.clustermanager.server import SimulatorSettings, simulator
from topo.sim.fleet.facts import facts_of_host
from topo.sim.fleet.reporting import Fleet, FleetWorker
from topo.sim.worlds.presets import World, managed_topology
from topo.sim.worlds.presets import world as made

_LOOK_S, _LIMIT_S = 0.05, 180.0
_EVENTS = "/apis/events.k8s.io/v1/events"
_OF_STARTS = {"GangPlaced", "GangBound"}
FREED = 4
"""Jobs below the switch that end before it dies, so that there is room below it for others."""


@dataclass
class Bed:
    """A cluster with its jobs, and everything that can be done to its nodes."""

    world: World
    api: Api
    session: ClientSession
    master: GangMaster
    manager: Path
    dump: Path
    built: Built
    workers: Mapping[str, FleetWorker]
    faults: list[str] = field(default_factory=list)

    async def ask(self, path: str) -> Any:
        """What the master answers; None before it listens."""
        try:
            async with self.session.get(f"{self.master.url}{path}") as answer:
                text = await answer.text()
        except (ClientError, ValueError):
            return None
        return json.loads(text) if text.startswith(("{", "[")) else text

    async def wrong(self) -> list[Any]:
        """The findings but for notes."""
        found = (await self.ask("/v1/findings"))["findings"]
        return [each for each in found if each["severity"] != "note"]

    async def pods(self) -> dict[str, tuple[str, str, str, str]]:
        """Of each pod of a job: its job, its node, its phase, its uid."""
        return {
            pod["metadata"]["name"]: (
                owner_of(pod),
                pod["spec"].get("nodeName", ""),
                pod["status"]["phase"],
                pod["metadata"]["uid"],
            )
            for pod in await self.api.items(PODS)
        }

    async def make(self, job: str) -> None:
        """A job of two pods of 8 GPUs in one group."""
        spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed"}
        spec |= {"template": template(Stamp(2, 0, 2), 16)}
        await self.api.create(BATCH_JOBS, {"metadata": {"name": job}, "spec": spec})

    async def run(self, *jobs: str) -> set[str]:
        """Returns the nodes of these jobs when their pods run."""

        async def do_run() -> bool:
            found = (await self.pods()).values()
            return sum(job in jobs and phase == "Running" for job, _, phase, _ in found) == (
                2 * len(jobs)
            )

        await until(do_run)
        return {node for job, node, *_ in (await self.pods()).values() if job in jobs}

    async def create(self, *jobs: str) -> set[str]:
        """Such jobs; returns their nodes when their pods run."""
        for job in jobs:
            await self.make(job)
        return await self.run(*jobs)

    async def free(self, dead: Collection[str]) -> int:
        """How many dragonflies have neither a pod nor a node of these."""
        taken = {node for _, node, *_ in (await self.pods()).values()} | set(dead)
        lost = {host.dragonfly for host in self.world.nodes if str(host.name) in taken}
        return len({host.dragonfly for host in self.world.nodes} - lost)

    async def end(self, jobs: Collection[str]) -> None:
        """Deletes jobs; returns when their pods are gone."""
        for job in jobs:
            await self.api.delete(f"{BATCH_JOBS}/{job}")

        async def are_gone() -> bool:
            return not any(job in jobs for job, *_ in (await self.pods()).values())

        await until(are_gone)

    def say(self, nodes: Collection[str], change: Callable[[NodeFacts], NodeFacts]) -> None:
        """The workers of these nodes see this from now on."""
        for node in nodes:
            worker = self.workers[node]
            worker.healthy = change(worker.healthy)
            worker.changed.set()


async def until(holds: Callable[[], Awaitable[bool]]) -> float:
    """Return after how long it holds."""
    began_s = time.monotonic()
    async with asyncio.timeout(_LIMIT_S):
        while not await holds():
            await asyncio.sleep(_LOOK_S)
    return time.monotonic() - began_s


@dataclass(frozen=True)
class Switch:
    """A switch, the nodes below it, how it dies and comes back, and what becomes of the nodes.

    `said` is what each of its witnesses makes the finding say.
    """

    name: str
    nodes: frozenset[str]
    turn: Callable[[Bed, bool], Coroutine[Any, Any, None]]
    said: tuple[str, ...]


def switchbox(world: World) -> Switch:
    """The vendor's: its optical ports and its manager lose it."""
    name = str(world.nodes[0].switchbox)
    machines = {str(h.name): h.number for h in world.nodes if str(h.switchbox) == name}

    async def turn(bed: Bed, is_up: bool) -> None:  # noqa: FBT001
        before, after = (PortState.DOWN, PortState.UP) if is_up else (PortState.UP, PortState.DOWN)

        def optical(facts: NodeFacts) -> NodeFacts:
            ports = (
                replace(p, state=after) if p.port >= 3 and p.state is before else p
                for p in facts.ports
            )
            return replace(facts, ports=tuple(ports))

        bed.say(machines, optical)
        status = {"status": "Ready" if is_up else "NotReady"}
        for number in machines.values():
            await command(bed.manager, "PATCH", f"/machines/machine-{number}", status)

    return Switch(
        name, frozenset(machines), turn, ("link port 3 is down", "the cluster manager says")
    )


def leaf(built: Built) -> Switch:
    """A leaf of another fabric: ports are down, and the next dump has none of its cables."""
    name, guid = next(iter(built.leaves.items()))
    far = {end for (at, _), (end, *_) in built.fabric.ends.items() if at == guid}
    nodes = frozenset(node for node, own in built.adapters.items() if far & set(own))
    whole = built.text()
    ends = dict(built.fabric.ends)

    async def turn(bed: Bed, is_up: bool) -> None:  # noqa: FBT001
        bed.say(
            nodes,
            lambda facts: replace(facts, nics=tuple(replace(n, up=is_up) for n in facts.nics)),
        )
        if not is_up:
            for at, port in [end for end in built.fabric.ends if end[0] == guid]:
                if built.fabric.ends[at, port][0] != f"{int(guid, 16) + 16:016x}":
                    built.fabric.cut(at, port)
        text = whole if is_up else built.text(next(h for h in built.adapters if h not in nodes))
        built.fabric.ends = dict(ends)
        bed.dump.with_suffix(".new").write_text(text)
        bed.dump.with_suffix(".new").replace(bed.dump)

    return Switch(name, nodes, turn, ("is down", "have no port of the fabric up"))


async def dies(
    bed: Bed, switch: Switch, tell: Callable[[str], None], *, freed: int = FREED
) -> None:
    """Let a switch die and come back; what is wrong goes to the faults of the bed."""
    running = {pod: seen for pod, seen in (await bed.pods()).items() if seen[1] in switch.nodes}
    gone = sorted({job for job, *_ in running.values()})[:freed]
    await bed.end(gone)
    await until(lambda: _is_quiet(bed))
    before, tree = await bed.pods(), await _hypernodes(bed)
    events, jobs = await _events(bed), {seen[0] for seen in before.values()}
    below = {f"default.{job}" for job, node, *_ in before.values() if node in switch.nodes}
    generation = (await bed.ask("/v1/topology?depth=0"))["generation"]

    async def is_found() -> bool:
        found = await bed.wrong()
        return len(found) == 1 and set(found[0].get("jobs", ())) == below

    async def is_whole() -> bool:
        (found,) = await bed.wrong()
        return all(words in found["what"] for words in switch.said)

    async def is_told() -> bool:
        document = await bed.ask("/node_group")
        found = {n for n, status in statuses(document) if status == "NotReady" and n in bed.workers}
        metrics = await bed.ask("/metrics")
        told = f'topo_master_nodes{{status="NotReady"}} {len(switch.nodes)}.0' in metrics
        return found == switch.nodes and told

    began_s = time.monotonic()
    turning = asyncio.create_task(switch.turn(bed, False))
    steps = {"one finding with its jobs": is_found, "tree and metrics": is_told}
    for what, holds in (steps | {"every witness in it": is_whole}).items():
        try:
            await until(holds)
        except TimeoutError:
            bed.faults.append(f"{switch.name}: never {what}: {await bed.wrong()}")
        tell(f"{switch.name} died: {what} after {time.monotonic() - began_s:.2f} s")
    await turning
    await _judge(bed, switch, tell)
    new = await _start_beside(bed, switch, tell)
    after = await bed.pods()
    bed.faults += [f"{pod} was touched" for pod in before if after.get(pod) != before[pod]]
    bed.faults += ["the HyperNodes differ"] * (tree != await _hypernodes(bed))

    began_s = time.monotonic()
    await switch.turn(bed, True)
    await until(lambda: _is_quiet(bed))
    tell(f"{switch.name} is back: no finding after {time.monotonic() - began_s:.2f} s")
    there = await bed.run(new[-1]) & switch.nodes
    tell(f"{new[-1]} runs on {len(there)} nodes below it")
    bed.faults += [f"{new[-1]} runs elsewhere"] * (not there)
    steps = (await bed.ask("/v1/topology?depth=0"))["generation"] - generation
    new_events = [each for each in await _events(bed) if each not in events]
    about = [e for e in new_events if e[0] in jobs and e[1] not in _OF_STARTS]
    tell(f"{steps} generations, {len(about)} Events about jobs that ran: {about[:4]}")
    bed.faults += [f"{len(about)} Events about {len(below)} jobs"] * (len(about) > len(below))
    await bed.end(new)


async def _start_beside(bed: Bed, switch: Switch, tell: Callable[[str], None]) -> list[str]:
    """Fill all dragonflies beside a dead switch; the last job finds only those below it."""
    new = [f"{switch.name}-{number}" for number in range(await bed.free(switch.nodes))]
    there = await bed.create(*new) & switch.nodes
    tell(f"{len(new)} new jobs run, on {len(there)} nodes below it; no other dragonfly is free")
    bed.faults += [f"{node} got a job below {switch.name}" for node in there]
    new.append(f"{switch.name}-waits")
    await bed.make(new[-1])
    await until(lambda: _waits(bed, new[-1]))
    tell(f"{new[-1]} waits: {(await bed.master.gang(new[-1]))['text']}")
    return new


async def _judge(bed: Bed, switch: Switch, tell: Callable[[str], None]) -> None:
    """Read the findings as an operator does: their words, doctor's and the page's."""
    told, wrong, plain = await _doctor(bed), await bed.wrong(), await bed.ask("/plain")
    for found in wrong:
        tell(f"  {found['code']}  {found['subject']}\n  {found['what']}\n  → {found['next_step']}")
        bed.faults += [f"{switch.name} is not named"] * (switch.name not in str(found))
        nodes = set(found["subjects"]) & set(bed.workers)
        bed.faults += [f"nodes named: {nodes ^ switch.nodes}"] * (nodes != switch.nodes)
    if _without_ages(told) != _without_ages(wrong):
        bed.faults.append(f"doctor says otherwise: {told}, {wrong}")
    bed.faults += ["the page does not name it"] * (switch.name not in plain)


async def _is_quiet(bed: Bed) -> bool:
    document = await bed.ask("/node_group")
    is_ready = isinstance(document, list) and len(list(statuses(document))) > len(bed.workers)
    ready = is_ready and all(status == "Ready" for _, status in statuses(document))
    return ready and not await bed.wrong()


async def _waits(bed: Bed, job: str) -> bool:
    return bool((await bed.master.gang(job)).get("text"))


async def _hypernodes(bed: Bed) -> dict[str, Any]:
    return {e["metadata"]["name"]: e["spec"] for e in await bed.api.items(HYPERNODES)}


async def _events(bed: Bed) -> list[tuple[str, str, str]]:
    found = await bed.api.items(_EVENTS)
    ours = [each for each in found if each.get("reportingController") == "topo-master"]
    return [(e["regarding"]["name"], e["reason"], e["metadata"]["uid"]) for e in ours]


async def _doctor(bed: Bed) -> list[Any]:
    argv = ("-m", "topo.cli.main", "doctor", "--master", bed.master.url, "--output", "json")
    child = await asyncio.create_subprocess_exec(
        sys.executable, *argv, stdout=asyncio.subprocess.PIPE
    )
    text, _ = await child.communicate()
    return [e for e in json.loads(text)["findings"] if e["severity"] != "note"]


def _without_ages(found: list[Any]) -> list[Any]:
    return [{**each, "since_s": None} for each in found]


@asynccontextmanager
async def bed_of(cluster: Cluster, home: Path, world: World, *more: str) -> AsyncIterator[Bed]:
    """The cluster with its manager, workers and master, which shows all nodes."""
    names = [str(host.name) for host in world.nodes]
    sides = [names[at::2] for at in (0, 1)]
    built = rails([side[at : at + 16] for side in sides for at in range(0, len(side), 16)], 1)
    dump = home / "dumps" / "subnet.txt"
    dump.parent.mkdir()
    dump.write_text(built.text())
    tokens = home / "tokens"
    tokens.write_text("".join(f"{name} token-{name}\n" for name in names))
    workers = {
        str(host.name): FleetWorker(
            replace(facts_of_host(host), nics=_nics(built.adapters[str(host.name)])),
            f"token-{host.name}",
            home / "none",
        )
        for host in world.nodes
    }
    settings = SimulatorSettings(directory=home / "manager", topology=managed_topology(world))
    async with simulator(settings) as manager, cluster.api() as api, ClientSession() as session:
        flags = (
            *("--mode=switchbox", f"--cluster-manager-address={manager.url}"),
            f"--cluster-manager-ca-file={manager.ca_file}",
            f"--credentials-dir={manager.credentials_dir}",
            *(f"--fabric-dir={dump.parent}", "--precedence=manager,fabric"),
            *(f"--worker-token-file={tokens}", "--controllers=hypernodes,nomination"),
            *more,
        )
        async with gang_master(cluster, world, home, *flags, rules=RIGHTS) as master:
            await until(lambda: _listens(master))
            fleet = Fleet(_reports_url(master), list(workers.values()))
            reporting = asyncio.create_task(fleet.run())
            bed = Bed(world, api, session, master, settings.directory, dump, built, workers)
            try:
                await until(lambda: _is_quiet(bed))
                yield bed
            finally:
                await ended([reporting])


def _nics(guids: list[str]) -> tuple[NetworkPort, ...]:
    return tuple(
        NetworkPort(f"mlx5_{at}", 1, up=True, node_guid=fours(guid))
        for at, guid in enumerate(guids)
    )


def _reports_url(master: GangMaster) -> str:
    sites = {e.get("site"): e for e in master.program.events if e.get("event") == "listening"}
    site = sites.get("reports")
    return "" if site is None else f"http://{site['host']}:{site['port']}"


async def _listens(master: GangMaster) -> bool:
    master.program.must_live()
    return bool(master.url and _reports_url(master))


async def _run(options: argparse.Namespace, cluster: Cluster, home: Path) -> int:
    world, began_s = made(options.boxes, 8, 2, 8), time.monotonic()

    def tell(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began_s:7.1f} s  {text}\n")
        sys.stdout.flush()

    await cluster.start(world)
    async with bed_of(cluster, home, world) as bed:
        seen_s = time.monotonic()
        tell(f"{len(world.nodes)} nodes are Ready")
        await bed.create(*(f"job-{number}" for number in range(options.jobs)))
        tell(f"{options.jobs} jobs run")
        await dies(bed, switchbox(world), tell)
        if options.leaf:
            await asyncio.sleep(max(0.0, QUIET_S + 10 - (time.monotonic() - seen_s)))
            await dies(bed, leaf(bed.built), tell)
        for fault in bed.faults:
            tell(f"wrong: {fault}"[:2000])
        return 1 if bed.faults else 0


def main() -> int:
    """The exit code: 0 where every check passed."""
    parser = argparse.ArgumentParser("python -m tests.e2e.scheduling.switch_dies")
    parser.add_argument("--boxes", type=int, default=27, help="switchboxes of 16 nodes")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--no-leaf", dest="leaf", action="store_false", help="not the leaf")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="topo-switch-"))
    with own_cluster(home, lease_s=max(LEASE_S, 3600)) as cluster:
        (home / "master").mkdir()
        try:
            code = asyncio.run(_run(options, cluster, home / "master"))
        except BaseException:
            sys.stderr.write(f"logs of all programs are in {home}\n")
            raise
    shutil.rmtree(home)
    return code


if __name__ == "__main__":
    sys.exit(main())
