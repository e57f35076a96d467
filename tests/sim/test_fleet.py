"""All workers of a world in one process, beside a real master."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.master.process import MasterProcess, master_process
from tests.support.waiting import eventually
from topo.cli.worlds import chosen
from topo.model.rest.topology import is_group, walk
from topo.sim.fleet.facts import assembled, facts_of_host
from topo.sim.fleet.reporting import Fleet, FleetWorker, tokens_of
from topo.sim.worlds.presets import World


@pytest.mark.parametrize("name", ["2x2x2", "0x3x2", "nvl72-18x4", "ascend-a3-2x4x16"])
def test_hosts_made_from_a_pattern_equal_those_made_from_their_recordings(name: str) -> None:
    for node in chosen(name).nodes:
        assert facts_of_host(node) == assembled(node)


def fleet_of(world: World, folder: Path) -> Sequence[FleetWorker]:
    """A worker for each host, whose file of faults is below the folder."""
    return [
        FleetWorker(facts_of_host(host), f"token-of-{host.name}", folder / host.name)
        for host in world.nodes
    ]


async def not_ready(master: MasterProcess) -> set[str]:
    """The nodes that are not Ready; one name that no node has while the tree is not there."""
    async with master.session.get(f"{master.url}/v1/topology") as answer:
        document = await answer.json() if answer.status == 200 else {"groups": ()}
    nodes = [node for _, node in walk(document["groups"]) if not is_group(node)]
    found = {node["name"] for node in nodes if node["status"] != "Ready"}
    return found if nodes else {"no tree"}


async def test_a_fleet_is_a_tree_and_what_stands_in_its_files_is_wrong_with_it(
    tmp_path: Path,
) -> None:
    """Both ends of a cable that is pulled, and nobody once it is plugged in again."""
    world = chosen("0x40x2")
    cut, other = (str(host.name) for host in world.nodes[:2])
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"{host.name} token-of-{host.name}\n" for host in world.nodes))
    assert set(tokens_of(tokens.read_text().splitlines())) == {h.name for h in world.nodes}

    async def are(master: MasterProcess, names: set[str]) -> bool:
        return await not_ready(master) == names

    async with master_process("--mode=dragonfly", f"--worker-token-file={tokens}") as master:
        workers = fleet_of(world, tmp_path)
        fleet = Fleet(f"http://127.0.0.1:{master.ports['reports']}", workers)
        running = asyncio.create_task(fleet.run())
        try:
            await eventually(partial(are, master, set()))
            (tmp_path / cut).write_text(f"remote 1 of {cut} vanishes\n")
            (tmp_path / other).write_text(f"remote 1 of {other} vanishes\n")
            await eventually(partial(are, master, {cut, other}))
            (tmp_path / cut).unlink()
            (tmp_path / other).unlink()
            await eventually(partial(are, master, set()))
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
