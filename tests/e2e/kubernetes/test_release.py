"""The chart installed with the vendor's own command line, its pods real: what users see of it."""

from typing import Any

from tests.e2e.controlplane.release import Release
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World


async def test_the_vendors_command_gives_a_tree_through_the_service(
    release: Release, world: World
) -> None:
    await release.install()
    await eventually(lambda: _is_ready(release))
    document = await release.node_group()
    boxes = [box["name"] for box in document]
    assert boxes == sorted({str(host.switchbox) for host in world.nodes})
    assert all(len(fly["child"]) == 2 for box in document for fly in box["child"])
    assert {leaf["name"] for box in document for fly in box["child"] for leaf in fly["child"]} == {
        str(host.name) for host in world.nodes
    }


async def _is_ready(release: Release) -> bool:
    document: Any = await release.node_group()
    return bool(document) and all(box["status"] == "Ready" for box in document)
