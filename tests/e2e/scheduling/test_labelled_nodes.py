"""Clusters that somebody else labelled: groups, HyperNodes and whole gangs without a worker."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane.admission import is_trusted
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.hosts import Hosts
from tests.e2e.controlplane.kubelet import kubelet
from tests.e2e.controlplane.kwok import REAL_PREFIX
from tests.e2e.controlplane.release import WAIT
from tests.e2e.controlplane.release import release as made_release
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.gang_master import RULES, GangMaster, gang_master
from tests.e2e.scheduling.jobs import (
    JOBS,
    NODES,
    are_whole,
    bound,
    gang_labels,
    homes,
    pods_of,
    volcano_job,
)
from tests.e2e.scheduling.scheduler_config import topo
from tests.helm.chart import CHART
from tests.support.waiting import eventually
from topo.sim.worlds.presets import SimNode, World

RELEASE = f"{REAL_PREFIX}labelled"
HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
RIGHTS = (
    *RULES,
    {
        "apiGroups": ["topology.volcano.sh"],
        "resources": ["hypernodes"],
        "verbs": ["list", "watch", "create", "patch", "delete"],
    },
)
Writer = Callable[[SimNode], dict[str, str]]


def gke(host: SimNode) -> dict[str, str]:
    """As GKE labels the nodes of a compact placement."""
    prefix = "cloud.google.com/gce-topology-"
    return {
        f"{prefix}block": str(host.switchbox),
        f"{prefix}subblock": str(host.dragonfly),
        f"{prefix}host": str(host.name),
    }


def aws(host: SimNode) -> dict[str, str]:
    """As the cloud controller labels nodes: layer 1 is the outermost."""
    values = ("nn-root", f"nn-{host.switchbox}", f"nn-{host.dragonfly}")
    layers = enumerate(values, start=1)
    return {f"topology.k8s.aws/network-node-layer-{number}": value for number, value in layers}


def topograph(host: SimNode) -> dict[str, str]:
    """As topograph 1.0: tier 0 is the innermost."""
    tiers = enumerate((str(host.dragonfly), str(host.switchbox)))
    return {f"fabric.topograph.run/tier-{number}": value for number, value in tiers}


TIERS: dict[Writer, list[str]] = {
    gke: ["subblock", "block"],
    aws: ["network-layer-3", "network-layer-2", "network-layer-1"],
    topograph: ["tier-0", "tier-1"],
}
"""The kinds of groups by tier, from the nodes up."""


@pytest.fixture(params=[gke, aws, topograph], ids=lambda writer: writer.__name__)
async def writer(request: pytest.FixtureRequest, api: Api, world: World) -> AsyncIterator[Writer]:
    """Label the nodes as one writer does; remove the labels at the end of the test."""
    labels: Writer = request.param
    for host in world.nodes:
        await _label(api, host, labels(host))
    yield labels
    for host in world.nodes:
        await _label(api, host, dict.fromkeys(labels(host)))


@pytest.fixture
async def labelled(cluster: Cluster, world: World, tmp_path: Path) -> AsyncIterator[GangMaster]:
    """A master that finds out which labels name groups, in a cluster without workers."""
    flags = ("--mode=labels", "--controllers=hypernodes,nomination")
    async with gang_master(cluster, world, tmp_path, *flags, rules=RIGHTS) as running:
        yield running


async def test_labels_of_others_give_hypernodes_and_a_gang_bound_whole(
    writer: Writer, labelled: GangMaster, api: Api, world: World
) -> None:
    """Four pods in two groups of two nodes; a relabelled node leaves its HyperNode, which splits
    the gang that runs on it.
    """
    await eventually(lambda: _agree(api, world, writer))
    assert "nothing is wrong" in await topo(labelled.url, "doctor")
    assert f"labels of {writer.__name__}" in " ".join((await topo(labelled.url, "tree")).split())
    await api.create(JOBS, volcano_job("whole", 4, 16))
    await eventually(lambda: bound(api, "whole", 4))
    nodes = [each.node for each in await pods_of(api, "whole")]
    assert are_whole(world, "dragonfly", nodes, 2)

    moved = next(host for host in world.nodes if host.name == nodes[0])
    other = next(host for host in world.nodes if host.name not in nodes)
    await _label(api, moved, writer(other))
    together = {nodes[0], *_members(world, "dragonfly")[str(other.dragonfly)]}
    await eventually(lambda: _is_a_group(api, together))
    await eventually(lambda: _is_told(labelled, "split"))
    await _label(api, moved, writer(moved))
    await eventually(lambda: _agree(api, world, writer))
    await eventually(lambda: _is_told(labelled, "bound"))
    await api.delete(f"{JOBS}/whole")
    await eventually(lambda: _is_unlabelled(api))


async def test_the_chart_in_mode_labels_places_jobs_and_starts_no_worker(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    """The two commands of docs/labels.md, and a job that asks for a group."""
    await api.create("/api/v1/namespaces", {"metadata": {"name": RELEASE}})
    for host in world.nodes:
        await _label(api, host, gke(host))
    hosts = Hosts(tmp_path / "hosts", world)
    async with (
        kubelet(cluster, tmp_path / "kubelet", hosts.folder) as running,
        made_release(api, running, RELEASE, cluster.files.kubeconfig, hosts) as release,
    ):
        values = ("topoDiscovery.deploy=true", "topoDiscovery.mode=labels")
        sets = [word for value in values for word in ("--set", value)]
        await release.helm("install", release.name, str(CHART), *sets, *WAIT)
        await eventually(lambda: _agree(api, world, gke))
        await eventually(lambda: is_trusted(api))
        await api.create(JOBS, asking.volcano_job("pair", 2, 16))
        await eventually(lambda: bound(api, "pair", 2))
        nodes = [each.node for each in await pods_of(api, "pair")]
        assert are_whole(world, "dragonfly", nodes, 2)
        assert await api.items("/apis/apps/v1/daemonsets") == []
        await api.delete(f"{JOBS}/pair")
        await release.helm("uninstall", release.name, *WAIT)
    for host in world.nodes:
        await _label(api, host, dict.fromkeys(gke(host)))


async def _label(api: Api, host: SimNode, labels: dict[str, Any]) -> None:
    await api.merge(f"{NODES}/{host.name}", {"metadata": {"labels": labels}})


async def _agree(api: Api, world: World, writer: Writer) -> bool:
    """Whether the HyperNodes are the groups of the world, each tier of its kind."""
    found = await api.items(HYPERNODES)
    tiers = {each["spec"]["tier"]: each["spec"]["tierName"] for each in found}
    wanted = {frozenset(nodes) for nodes in _members(world, "dragonfly").values()}
    kinds = dict(enumerate(TIERS[writer], start=1))
    return tiers == kinds and wanted == {_nodes(each) for each in found} - {frozenset()}


async def _is_a_group(api: Api, nodes: set[str]) -> bool:
    return frozenset(nodes) in {_nodes(each) for each in await api.items(HYPERNODES)}


async def _is_told(master: GangMaster, state: str) -> bool:
    return (await master.gang("whole")).get("state") == state


async def _is_unlabelled(api: Api) -> bool:
    return not await gang_labels(api)


def _nodes(hypernode: Any) -> frozenset[str]:
    """The nodes that are members themselves."""
    members = hypernode["spec"]["members"]
    names = (m["selector"]["exactMatch"]["name"] for m in members if m["type"] == "Node")
    return frozenset(names)


def _members(world: World, kind: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node, group in homes(world, kind).items():
        found.setdefault(group, set()).add(node)
    return found
