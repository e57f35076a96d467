"""`make tour`: the same job on stock Volcano without us and with us, and what `topo` says of it.

A control plane of real programs on this machine. What the tour tells is what the README shows:
`python -m tests.e2e.scheduling.tour README.md` writes it there anew.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane import programs
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, own_cluster
from tests.e2e.controlplane.volcano import vendor_configuration
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.admission_master import admission_master
from tests.e2e.scheduling.gang_master import api_url, document
from tests.e2e.scheduling.jobs import JOBS, PODS, WORDS, homes, taker
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World
from topo.sim.worlds.presets import world as made

_MARKS = ("<!-- tour -->\n```console\n", "```\n<!-- end of tour -->")
ALONE, TOGETHER = "train", "train-in-pairs"
_PODS, _PAIR = 8, 2
Tell = Callable[[str], None]


def half_of_first(world: World) -> list[str]:
    """One node of each dragonfly of the first switchbox: half of it is in use."""
    first = world.nodes[0].switchbox
    found = {host.dragonfly: str(host.name) for host in world.nodes if host.switchbox == first}
    return list(found.values())


def split(world: World, nodes: Sequence[str]) -> int:
    """How many pairs of ranks are not in one dragonfly."""
    home = homes(world, "dragonfly")
    return sum(1 for one, other in _pairs(nodes) if home[one] != home[other])


async def ran(api: Api, collection: str, job: Any) -> list[str]:
    """The nodes of a job's pods, by rank, once all are bound."""
    name = job["metadata"]["name"]
    await api.create(collection, job)
    found: list[str] = []

    async def is_bound() -> bool:
        found[:] = await asking.nodes_of(api, name)
        return len(found) == _PODS and all(found)

    await eventually(is_bound)
    return found


async def ended(api: Api, collection: str, name: str) -> None:
    """A job is taken away; returns when its pods are gone."""

    async def is_gone() -> bool:
        return not await asking.nodes_of(api, name)

    await api.delete(f"{collection}/{name}")
    await eventually(is_gone)


async def toured(
    cluster: Cluster, api: Api, world: World, home: Path, tell: Tell
) -> tuple[list[str], list[str]]:
    """Where the pods of the job are alone, and with us, by rank.

    The tour leaves its job and the pods of others in the cluster.
    """
    (home / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
    async with admission_master(cluster, api, home) as master:
        for node in half_of_first(world):
            await api.create(PODS, taker(f"taker-{node}", node))
        tell(f"{len(world.nodes)} nodes of 8 GPUs, wired in pairs: dragonflies. Of each of the")
        tell("first four dragonflies one node is in use.\n")
        tell(f"A job of {_PODS} pods of 8 GPUs on stock Volcano; ranks 0 and 1, 2 and 3, …")
        tell("train together:\n")
        alone = await ran(api, JOBS, asking.volcano_job(ALONE, _PODS))
        tell(shown(world, alone))
        await ended(api, JOBS, ALONE)
        tell(f'The same job with one line more, {WORDS.size}: "16":\n')
        together = await ran(api, JOBS, asking.volcano_job(TOGETHER, _PODS, 16))
        tell(shown(world, together))
        for words in (("gangs",), ("why", TOGETHER)):
            tell(f"$ topo {' '.join(words)}")
            tell(await _topo(api_url(master.program), *words))
    return alone, together


def shown(world: World, nodes: Sequence[str]) -> str:
    """Where each pair of ranks is, a line each, and how many are whole."""
    home, lines = homes(world, "dragonfly"), []
    for at, pair in enumerate(_pairs(nodes)):
        where = " | ".join(dict.fromkeys(home[node] for node in pair))
        lines.append(f"  ranks {2 * at} {2 * at + 1}  {pair[0]:<14}{pair[1]:<14}  {where}")
    whole = len(lines) - split(world, nodes)
    return "\n".join([*lines, f"  {whole} of {len(lines)} pairs are in one dragonfly\n"])


def _pairs(nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
    return zip(nodes[::_PAIR], nodes[1::_PAIR], strict=True)


async def _topo(url: str, *words: str) -> str:
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "topo.cli.main", *words),
        env={**os.environ, "TOPO_MASTER": url, "NO_COLOR": "1", "COLUMNS": "80"},
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await command.communicate()
    return printed.decode()


def on_page(page: str) -> str:
    """What a page shows of the tour."""
    return page.split(_MARKS[0])[1].split(_MARKS[1], maxsplit=1)[0]


async def _run(cluster: Cluster, home: Path) -> str:
    world, told = made(2, 4, 2, 8, stem="sample"), []

    def tell(text: str) -> None:
        told.append(text)
        _tell(text)

    await cluster.start(world)
    async with cluster.api() as api:
        await toured(cluster, api, world, home, tell)
    return "\n".join(told)


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """The exit code: 0 after the tour, 1 where no Go builds the programs."""
    if (reason := programs.why_not()) is not None:
        sys.stderr.write(f"{reason}\n")
        return 1
    home = Path(tempfile.mkdtemp(prefix="topo-tour-"))
    try:
        with own_cluster(home, volcano_configuration=vendor_configuration()) as cluster:
            told = asyncio.run(_run(cluster, home))
    finally:
        shutil.rmtree(home)
    for page in map(Path, sys.argv[1:]):
        text = page.read_text()
        page.write_text(text.replace(on_page(text), f"{told.rstrip()}\n"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
