"""What the cluster shows follows the cables: labels, HyperNodes and /node_group say the same.

One release for all of these tests: each leaves it as it found it.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.controlplane.cleanup import Baseline
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.hosts import exchanged
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.controlplane.release import Release
from tests.e2e.kubernetes.agreement import (
    DOMAIN,
    HYPERNODES,
    broken,
    disagreements,
    doubts,
    of_document,
    statuses,
)
from tests.support.waiting import eventually, eventually_nothing
from topo.sim.worlds.presets import World

pytestmark = pytest.mark.asyncio(loop_scope="module")
LABEL = f"{DOMAIN}/dragonfly"


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
    assert boxes == {
        str(box): frozenset(str(host.name) for host in world.nodes if host.switchbox == box)
        for box in {host.switchbox for host in world.nodes}
    }
    assert sorted(len(nodes) for kind, _, nodes in groups if kind == "dragonfly") == [2] * 8


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
    stranger = {"type": "Node", "selector": {"exactMatch": {"name": "node-sample16"}}}
    await settled.api.merge(f"{HYPERNODES}/{box}", {"spec": {"members": [stranger]}})
    await eventually(lambda: _agree(settled))
    await settled.api.delete(f"{HYPERNODES}/{box}")
    await eventually(lambda: _agree(settled))


async def test_a_hypernode_of_somebody_else_stays_as_it_is(settled: Release) -> None:
    member = {"type": "Node", "selector": {"exactMatch": {"name": "node-of-theirs"}}}
    made = await settled.api.create(
        HYPERNODES,
        {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": "theirs"},
            "spec": {"tier": 1, "members": [member]},
        },
    )
    settled.rewire(exchanged(settled.hosts.world, "node-sample2", "node-sample3"))
    await eventually(lambda: _is_together(settled, "node-sample1", "node-sample3"))
    await eventually(lambda: _agree(settled))
    assert await settled.api.get(f"{HYPERNODES}/theirs") == made
    await settled.api.delete(f"{HYPERNODES}/theirs")


async def test_a_node_that_was_deleted_is_not_made_again(
    settled: Release, control_plane: Cluster, baseline: Baseline
) -> None:
    await settled.api.delete(f"{NODES}/node-sample16")
    right = (await settled.api.get(f"{NODES}/node-sample1"))["metadata"]["labels"][LABEL]
    await settled.api.merge(f"{NODES}/node-sample1", {"metadata": {"labels": {LABEL: None}}})
    await eventually(lambda: _is_labelled(settled.api, "node-sample1", right))
    names = {node["metadata"]["name"] for node in await settled.api.items(NODES)}
    assert "node-sample16" not in names
    asked = control_plane.calls(f"{settled.namespace}:topo-master")
    assert not [call for call in asked if call.verb == "create" and call.resource == "nodes"]
    await baseline.mend(settled.api)


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


async def _is_labelled(api: Api, node: str, value: str) -> bool:
    labels = (await api.get(f"{NODES}/{node}"))["metadata"]["labels"]
    return bool(labels.get(LABEL) == value)
