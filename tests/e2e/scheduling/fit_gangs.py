"""Random gangs on random nodes: whatever is opened is bound by kube-scheduler, all of it.

`make e2e-fits` runs it after the pairs, on a cluster of its own: a round has nodes with other
amounts of everything, other pods on them, volumes of some switchboxes and devices of a driver.
Bursts of jobs whose pods ask for CPU, memory, ports, places of their own, volumes and devices come
and go. The exit code is 1 where a gang was opened and not bound.
"""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.scheduling import asking, devices, volumes
from tests.e2e.scheduling.fit_pairs import random_amounts, random_pod
from tests.e2e.scheduling.fit_run import FitRun, judged
from tests.e2e.scheduling.gang_master import GangMaster, gang_master
from tests.e2e.scheduling.jobs import BATCH_JOBS, GATE, PODS, WORDS, are_whole, homes, owner_of
from tests.support.waiting import eventually
from topo.gangs.stamp import Stamp
from topo.sim.worlds.presets import World
from topo.sim.worlds.presets import world as made

AT_ONCE, BURSTS = 8, 5
WAITING = {"no-room", "never-fits", "behind"}
_GPUS = 4
_NICS = (1, 2)
"""How many devices pods may claim."""


@dataclass
class Seen:
    """What came of the gangs: how many were bound, and which waited; `failed` were opened."""

    bound: int = 0
    waited: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def __add__(self, other: "Seen") -> "Seen":
        """What came of all of them."""
        bound, waited = self.bound + other.bound, self.waited + other.waited
        return Seen(bound, waited, self.failed + other.failed)

    def __str__(self) -> str:
        waited = ", ".join(f"{count} {state}" for state, count in sorted(self.waited.items()))
        total = self.bound + sum(self.waited.values()) + len(self.failed)
        return f"{total} gangs, {self.bound} bound, {waited}; {len(self.failed)} opened in vain"


async def round_of_gangs(
    api: Api, master: GangMaster, world: World, chance: random.Random, *, bursts: int = BURSTS
) -> Seen:
    """Bursts of gangs on nodes with other amounts, beside other pods."""
    seen = Seen()
    shelves = homes(world, "switchbox")
    for host, shelf in shelves.items():
        amounts = random_amounts(chance)
        labels = {"metadata": {"labels": {volumes.SHELF: shelf}}}
        await api.merge(f"{NODES}/{host}", labels)
        status = {"status": {"allocatable": amounts, "capacity": amounts}}
        await api.merge(f"{NODES}/{host}/status", status)
        await devices.publish(api, host, chance.randrange(5))
        for number in range(chance.randrange(3)):
            filler = random_pod(chance, f"filler-{host}-{number}", gpus=chance.choice((0, 0, 4)))
            spec = filler["spec"] | {"nodeName": host}
            await api.create(PODS, filler | {"spec": spec})
    names = sorted(set(shelves.values()))
    for shelf in names:
        await volumes.make(api, f"data-{shelf}", shelf)
    await devices.define(api, *_NICS)
    for burst in range(bursts):
        jobs = list(_jobs(chance, names, burst))
        await asyncio.gather(*(api.create(BATCH_JOBS, job) for job in jobs))
        for job in jobs:
            await _judge(api, master, world, job, seen)
        for job in jobs:
            await api.delete(f"{BATCH_JOBS}/{job['metadata']['name']}")
        await eventually(lambda: _are_gone(api))
    await devices.withdraw(api, *_NICS)
    await _clear(api, names)
    return seen


def _jobs(chance: random.Random, shelves: list[str], burst: int) -> Iterator[Any]:
    """Jobs of 1 to 6 pods of half a node, in groups of one node or two."""
    for number in range(AT_ONCE):
        pods, size = chance.randint(1, 6), chance.choice((8, 16))
        pod = random_pod(chance, "pod", gpus=_GPUS)
        spec = pod["spec"] | {"schedulingGates": [GATE], "restartPolicy": "Never"}
        if chance.random() < 0.3:
            claim = {"claimName": f"data-{chance.choice(shelves)}"}
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": claim}]
        if chance.random() < 0.4:
            devices.claim(spec, chance.choice(_NICS))
        stamp = Stamp(pods, 0, size // _GPUS)
        annotations = {WORDS.size: str(size), **stamp.annotations(WORDS)}
        metadata = {"labels": pod["metadata"]["labels"], "annotations": annotations}
        job = asking.batch_job(f"gang-{burst}-{number}", pods)
        job["spec"]["template"] = {"metadata": metadata, "spec": spec}
        yield job


async def _judge(
    api: Api, master: GangMaster, world: World, job: dict[str, Any], seen: Seen
) -> None:
    """Wait until the gang is bound or waits; what was opened must be bound, each group whole."""
    name = job["metadata"]["name"]
    pods = job["spec"]["completions"]
    states: list[str] = []

    async def has_settled() -> bool:
        states.append((await master.gang(name)).get("state", ""))
        return states[-1] == "bound" or states[-1] in WAITING

    try:
        await eventually(has_settled)
    except TimeoutError:
        found = [pod for pod in await api.items(PODS) if owner_of(pod) == name]
        told = [pod["status"].get("conditions", [{}])[0].get("message", "") for pod in found]
        seen.failed.append(f"{name} is {states[-1]}: {told}; {job['spec']['template']}")
        return
    if states[-1] != "bound":
        seen.waited[states[-1]] += 1
        return
    nodes = await asking.nodes_of(api, name)
    assert len(nodes) == pods
    stamp = job["spec"]["template"]["metadata"]["annotations"][WORDS.pods_per_group]
    if not are_whole(world, "dragonfly", nodes, int(stamp)):
        seen.failed.append(f"{name} is split: {nodes}")
    seen.bound += 1


async def _are_gone(api: Api) -> bool:
    """Whether no pod of a job is left."""
    return not [pod for pod in await api.items(PODS) if owner_of(pod)]


async def _clear(api: Api, shelves: list[str]) -> None:
    for pod in await api.items(PODS):
        await api.call("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
    for shelf in shelves:
        await volumes.remove(api, f"data-{shelf}")


async def _judge_rounds(run: FitRun) -> int:
    world = made(4, 4, 2, 8, stem="fit")
    await run.cluster.start(world)
    seen = Seen()
    async with run.cluster.api() as api, gang_master(run.cluster, world, run.home) as master:
        for chance in run.chances():
            seen += await round_of_gangs(api, master, world, chance)
            sys.stdout.write(f"{seen}\n")
            sys.stdout.flush()
    for text in seen.failed:
        sys.stdout.write(f"{text}\n")
    return 1 if seen.failed else 0


def main() -> int:
    """The exit code: 0 where whatever was opened was bound."""
    return judged("tests.e2e.scheduling.fit_gangs", 13, _judge_rounds)


if __name__ == "__main__":
    sys.exit(main())
