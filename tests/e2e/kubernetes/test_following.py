"""What the cluster shows follows the cables: labels, HyperNodes and /node_group say the same.

One release, installed by the vendor's command, for all tests: each leaves it as it found it.
"""

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.hosts import exchanged
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.controlplane.release import Release
from tests.e2e.controlplane.terminal import documented, typed
from tests.e2e.kubernetes.agreement import (
    DOMAIN,
    HYPERNODES,
    broken,
    disagreements,
    doubts,
    events_of,
    of_document,
    statuses,
)
from tests.support.waiting import eventually, eventually_nothing
from topo.sim.worlds.presets import World

pytestmark = pytest.mark.asyncio(loop_scope="module")
LABEL = f"{DOMAIN}/dragonfly"
LOSSES = f"{DOMAIN}/gpu.topology.losses"
COMMANDS = documented("kubernetes.md")[0].splitlines()


@pytest_asyncio.fixture(loop_scope="module")
async def settled(shared_release: Release) -> AsyncIterator[Release]:
    """A release whose three witnesses agree, before and after."""
    await eventually_nothing(lambda: doubts(shared_release))
    yield shared_release
    shared_release.hosts.heal()
    shared_release.rewire(shared_release.hosts.world)
    await eventually_nothing(lambda: doubts(shared_release))


async def test_labels_and_hypernodes_say_what_the_document_says(
    settled: Release, world: World
) -> None:
    assert await disagreements(settled) == []
    groups = of_document(await settled.node_group()).groups
    boxes = {name: nodes for kind, name, nodes in groups if kind == "switchbox"}
    assert [box["name"] for box in await settled.node_group()] == sorted(boxes)
    assert boxes == {
        str(box): frozenset(str(host.name) for host in world.nodes if host.switchbox == box)
        for box in {host.switchbox for host in world.nodes}
    }
    assert sorted(len(nodes) for kind, _, nodes in groups if kind == "dragonfly") == [2] * 4


async def test_a_cut_cable_shows_and_no_group_is_lost_by_it(settled: Release) -> None:
    began_s = time.monotonic()
    ends = settled.hosts.cut("node-sample3")
    await eventually(lambda: _has_status(settled, "NotReady", *ends))
    print(f"a cut cable shows after {time.monotonic() - began_s:.2f} s")
    assert await disagreements(settled) == []
    began_s = time.monotonic()
    settled.hosts.heal()
    await eventually(lambda: _has_status(settled, "Ready", *ends))
    print(f"a healed cable shows after {time.monotonic() - began_s:.2f} s")
    assert await disagreements(settled) == []


async def test_a_node_that_moves_leaves_the_tree_whole_at_every_moment(settled: Release) -> None:
    before = of_document(await settled.node_group())
    moved = exchanged(settled.hosts.world, "node-sample2", "node-sample3")
    async with _watched(settled.api) as witness:
        began_s = time.monotonic()
        settled.rewire(moved)
        await eventually(lambda: _is_together(settled, "node-sample1", "node-sample3"))
        shown_s = time.monotonic() - began_s
        await eventually(lambda: _agree(settled))
        agree_s = time.monotonic() - began_s
        print(f"a moved node shows after {shown_s:.2f} s, all agree after {agree_s:.2f} s")
    assert of_document(await settled.node_group()) != before
    assert witness.events > 0
    assert witness.wrong == []


async def test_a_label_that_somebody_edits_is_repaired(settled: Release) -> None:
    path = f"{NODES}/node-sample5"
    right = (await settled.api.get(path))["metadata"]["labels"][LABEL]
    for edited in ("elsewhere", None):
        await settled.api.merge(path, {"metadata": {"labels": {LABEL: edited}}})
        await eventually(lambda: _is_labelled(settled.api, "node-sample5", right))


async def test_a_hypernode_that_somebody_edits_or_deletes_is_repaired(settled: Release) -> None:
    groups = of_document(await settled.node_group()).groups
    box = min(name for kind, name, _ in groups if kind == "switchbox")
    stranger = {"type": "Node", "selector": {"exactMatch": {"name": "node-sample8"}}}
    await settled.api.merge(f"{HYPERNODES}/{box}", {"spec": {"members": [stranger]}})
    await eventually(lambda: _agree(settled))
    await settled.api.delete(f"{HYPERNODES}/{box}")
    await eventually(lambda: _agree(settled))


async def test_nodes_are_annotated_and_a_cut_and_a_healed_cable_are_told_of_their_ends(
    settled: Release,
) -> None:
    """No other node is told of a cable: those of these have no other test that cuts them."""
    await eventually(lambda: _all_are_annotated(settled.api))
    ends = settled.hosts.cut("node-sample5")
    assert set(ends) == {"node-sample5", "node-sample6"}
    for name in ends:
        await eventually(partial(_is_told, settled.api, name, "LinkDown"))
    settled.hosts.heal()
    for name in ends:
        await eventually(partial(_is_told, settled.api, name, "LinkUp"))
    told = await _told(settled.api, "node-sample7")
    assert not {"LinkDown", "LinkUp"} & set(told)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine")
async def test_the_commands_of_the_page_show_labels_hypernodes_events_and_annotations(
    settled: Release, control_plane: Cluster
) -> None:
    """Those of docs/kubernetes.md, typed in their order."""
    labels, hypernodes, events, annotations, doctor = COMMANDS

    async def shows(command: str, *texts: str) -> bool:
        printed = await typed(control_plane, command)
        return all(text in printed for text in texts)

    await eventually(lambda: shows(annotations, '"8":'))
    await eventually(lambda: shows(labels, "SWITCHBOX", "DRAGONFLY", "node-sample8"))
    await eventually(lambda: shows(hypernodes, "TIER"))
    near, far = settled.hosts.cut("node-sample7")
    await eventually(lambda: shows(events, "LinkDown", f"node/{near}", f"node/{far}"))
    assert "all 2 pods of topo-master are ready" in await typed(control_plane, doctor)


@dataclass
class _Witness:
    """A second client that follows the HyperNodes, and what it saw wrong at any time."""

    tree: dict[str, Any] = field(default_factory=dict)
    events: int = 0
    wrong: list[str] = field(default_factory=list)

    def see(self, event: Any) -> None:
        self.events += 1
        name = event["object"]["metadata"]["name"]
        if event["type"] == "DELETED":
            self.tree.pop(name, None)
        else:
            self.tree[name] = event["object"]
        self.wrong += broken(self.tree)


@asynccontextmanager
async def _watched(api: Api) -> AsyncIterator[_Witness]:
    listed = await api.get(HYPERNODES)
    witness = _Witness({each["metadata"]["name"]: each for each in listed["items"]})

    async def follow() -> None:
        version = listed["metadata"]["resourceVersion"]
        async with api.watch(HYPERNODES, resourceVersion=version) as events:
            async for event in events:
                witness.see(event)

    task = asyncio.create_task(follow())
    try:
        yield witness
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _agree(release: Release) -> bool:
    return not await disagreements(release)


async def _has_status(release: Release, status: str, *nodes: str) -> bool:
    found = dict(statuses(await release.node_group() or ()))
    return all(found.get(node) == status for node in nodes)


async def _is_together(release: Release, *nodes: str) -> bool:
    groups = of_document(await release.node_group() or ()).groups
    return any(kind == "dragonfly" and members == set(nodes) for kind, _, members in groups)


async def _all_are_annotated(api: Api) -> bool:
    """Each node has a loss for each number of its eight GPUs, as HAMi reads them."""
    found = [node["metadata"].get("annotations", {}) for node in await api.items(NODES)]
    return all(json.loads(each.get(LOSSES, "{}")).keys() == set("12345678") for each in found)


async def _is_told(api: Api, node: str, reason: str) -> bool:
    return reason in await _told(api, node)


async def _told(api: Api, node: str) -> list[str]:
    found = await api.get(f"{NODES}/{node}")
    return [each["reason"] for each in await events_of(api, node, found["metadata"]["uid"])]


async def _is_labelled(api: Api, node: str, value: str) -> bool:
    labels = (await api.get(f"{NODES}/{node}"))["metadata"]["labels"]
    return bool(labels.get(LABEL) == value)
