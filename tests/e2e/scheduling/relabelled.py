"""Labels that change under 200 running jobs: `make e2e-labels`.

400 nodes are labelled as GKE labels them, in groups of two, and each group runs a job. Then nodes
get the labels of other groups, one after the other, and their own again. Judged is each version of
the HyperNodes that a watch shows; told is after how long a job knows that it is split.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from tests.e2e.controlplane.client import Api, follow
from tests.e2e.controlplane.cluster import Cluster, own_cluster
from tests.e2e.controlplane.kwok import LEASE_S
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.scheduling.gang_master import GangMaster, gang_master
from tests.e2e.scheduling.jobs import BATCH_JOBS, template
from tests.e2e.scheduling.test_labelled_nodes import HYPERNODES, RIGHTS, gke
from topo.gangs.stamp import Stamp
from topo.sim.worlds.presets import SimNode, World
from topo.sim.worlds.presets import world as made

_LOOK_S = 0.02
_LIMIT_S = 120.0


class Watch:
    """What a watch of the HyperNodes shows, and the groups in which each node may be."""

    def __init__(self, world: World) -> None:
        self.allowed = {str(host.name): {str(host.dragonfly)} for host in world.nodes}
        self.versions = 0
        self.faults: list[str] = []
        self.homes: dict[str, str] = {}

    async def run(self, api: Api) -> None:
        """Judge each version until cancelled."""
        async for found in follow(api, HYPERNODES):
            self.versions += 1
            tree = {each["metadata"]["name"]: each["spec"]["members"] for each in found.values()}
            self.faults += self._faults(tree)

    def _faults(self, tree: dict[str, list[Any]]) -> Iterator[str]:
        members = [
            (_name(member), member["type"], group) for group in tree for member in tree[group]
        ]
        for (name, kind), count in Counter((name, kind) for name, kind, _ in members).items():
            if count > 1:
                yield f"{kind} {name} is in {count} HyperNodes"
            if kind == "HyperNode" and name not in tree:
                yield f"{name} is named and not there"
        yield from (f"{group} is empty" for group, found in tree.items() if not found)
        self.homes = {name: group for name, kind, group in members if kind == "Node"}
        for name, group in self.homes.items():
            if group not in self.allowed[name]:
                yield f"{name} is in {group}, and its labels say {self.allowed[name]}"


def _name(member: Any) -> str:
    name: str = member["selector"]["exactMatch"]["name"]
    return name


async def _label(api: Api, host: SimNode, like: SimNode) -> None:
    labels = {"metadata": {"labels": gke(like)}}
    await api.merge(f"{NODES}/{host.name}", labels)


async def _gangs(session: ClientSession, master: GangMaster) -> dict[str, str]:
    """The state of each gang; none before the master listens."""
    if not master.url:
        return {}
    async with session.get(f"{master.url}/v1/gangs") as answer:
        gangs = (await answer.json())["gangs"] if answer.ok else []
        return {each["name"]: each["state"] for each in gangs}


async def _until(holds: Any) -> float:
    """Return after how long it holds."""
    now = asyncio.get_running_loop().time
    began_s = now()
    async with asyncio.timeout(_LIMIT_S):
        while not await holds():
            await asyncio.sleep(_LOOK_S)
    return now() - began_s


async def _go(api: Api, world: World, master: GangMaster, moves: int) -> tuple[Watch, list[float]]:
    watch, told_s = Watch(world), list[float]()
    chance = random.Random(1)  # noqa: S311 - the same each time
    async with ClientSession() as session, asyncio.TaskGroup() as group:
        watching = group.create_task(watch.run(api))
        jobs = len({host.dragonfly for host in world.nodes})
        for number in range(jobs):
            await api.create(BATCH_JOBS, _job(f"job-{number}"))

        async def states(state: str, number: int) -> bool:
            return Counter((await _gangs(session, master)).values())[state] == number

        await _until(lambda: states("bound", jobs))
        for _ in range(moves):
            moved, other = chance.sample(world.nodes, 2)
            name, home = str(moved.name), str(moved.dragonfly)
            if moved.dragonfly == other.dragonfly:
                continue
            watch.allowed[name] = {home, str(other.dragonfly)}
            await _label(api, moved, other)
            told_s.append(await _until(lambda: states("split", 1)))
            await _label(api, moved, moved)
            await _until(lambda: states("bound", jobs))
            await _until(lambda: _is_home(watch, name, home))  # noqa: B023 - at once
            watch.allowed[name] = {home}
        watching.cancel()
    return watch, sorted(told_s)


async def _is_home(watch: Watch, node: str, group: str) -> bool:
    return watch.homes.get(node) == group


def _job(name: str) -> Any:
    """Two pods of 8 GPUs in one group, as the webhook leaves them."""
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed"}
    return {"metadata": {"name": name}, "spec": {**spec, "template": template(Stamp(2, 0, 2), 16)}}


async def _run(cluster: Cluster, home: Path, boxes: int, moves: int) -> int:
    world = made(boxes, 8, 2, 8, stem="label")
    await cluster.start(world)
    async with cluster.api() as api:
        for host in world.nodes:
            await _label(api, host, host)
        flags = ("--mode=labels", "--controllers=hypernodes,nomination")
        async with gang_master(cluster, world, home, *flags, rules=RIGHTS) as master:
            watch, told_s = await _go(api, world, master, moves)
    middle, worst = told_s[len(told_s) // 2], told_s[-1]
    sys.stdout.write(
        f"{len(world.nodes)} nodes, {len(told_s)} relabelled: split told after {middle:.2f} s "
        f"(median), {worst:.2f} s at most; {watch.versions} versions of HyperNodes, "
        f"{len(watch.faults)} wrong\n"
    )
    sys.stdout.writelines(f"{fault}\n" for fault in watch.faults[:20])
    return 1 if watch.faults else 0


def main() -> int:
    """The exit code: 0 where no HyperNode was wrong at any moment."""
    parser = argparse.ArgumentParser("python -m tests.e2e.scheduling.relabelled")
    parser.add_argument("--boxes", type=int, default=25, help="switchboxes of 16 nodes")
    parser.add_argument("--moves", type=int, default=60)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="topo-labels-"))
    (home / "master").mkdir()
    try:
        with own_cluster(home, lease_s=max(LEASE_S, 3600)) as cluster:
            return asyncio.run(_run(cluster, home / "master", options.boxes, options.moves))
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    sys.exit(main())
