"""Who may ask the extender where no value says it: the hosts that Helm sees on a real cluster."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.helm.chart import CHART, NAMESPACE, ON, built_helm, objects, one, run
from tests.support.waiting import eventually

NODES = "/api/v1/nodes"
HOSTS: dict[str, dict[str, Any]] = {
    "control-1": {
        "labels": {"node-role.kubernetes.io/control-plane": ""},
        "annotations": {
            "projectcalico.org/IPv4IPIPTunnelAddr": "10.244.9.1",
            "projectcalico.org/IPv6VXLANTunnelAddr": "fd00:244::9",
        },
        "podCIDRs": ["10.244.1.0/24", "fd00:244:1::/64"],
        "addresses": {"InternalIP": "192.168.7.1", "ExternalIP": "203.0.113.1", "Hostname": "c1"},
    },
    "control-2": {
        "labels": {"node-role.kubernetes.io/master": ""},
        "annotations": {},
        "podCIDRs": [],
        "addresses": {"InternalIP": "fd00:7::2"},
    },
}
"""By their label of today and of yesterday; the first behind the tunnels of two networks."""


@pytest.fixture
async def control_plane_hosts(api: Api) -> AsyncIterator[None]:
    try:
        for name, host in HOSTS.items():
            metadata = {"name": name, "labels": host["labels"], "annotations": host["annotations"]}
            spec = {"podCIDRs": host["podCIDRs"], "podCIDR": "".join(host["podCIDRs"][:1])}
            await api.create(NODES, {"metadata": metadata, "spec": spec})
            await eventually(partial(_has_its_kubelet, api, name))  # which writes addresses, too
            told = [{"type": kind, "address": each} for kind, each in host["addresses"].items()]
            await api.merge(f"{NODES}/{name}/status", {"status": {"addresses": told}})
        yield
    finally:
        for name in HOSTS:
            await api.delete(f"{NODES}/{name}")


async def _has_its_kubelet(api: Api, node: str) -> bool:
    return bool((await api.get(f"{NODES}/{node}")).get("status", {}).get("addresses"))


async def rendered(cluster: Cluster, home: Path, *further: str) -> Any:
    """What Helm would install on this cluster, and what it refuses."""
    asked = ("--set", "extender.enabled=true", *further)
    place = ("--namespace", NAMESPACE, "--kubeconfig", str(cluster.files.kubeconfig))
    words = ("template", "topo", str(CHART), "--dry-run=server", *ON, *asked, *place)
    return await asyncio.to_thread(partial(run, built_helm(), *words, home=home))


def let_in(text: str) -> Iterator[str]:
    """The networks that the policy opens the extender to."""
    policy = one(objects(text), "NetworkPolicy", "topo-master")
    for rule in policy["spec"]["ingress"]:
        if rule["ports"] == [{"port": "extender"}]:
            yield from (each["ipBlock"]["cidr"] for each in rule["from"] if "ipBlock" in each)


@pytest.mark.usefixtures("control_plane_hosts")
async def test_the_extender_is_open_to_the_control_planes_hosts_as_their_traffic_comes(
    cluster: Cluster, tmp_path: Path
) -> None:
    """By their own addresses, and those of the tunnels by which they reach pods elsewhere."""
    done = await rendered(cluster, tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(let_in(done.stdout)) == {
        "192.168.7.1/32",
        "10.244.9.1/32",
        "10.244.1.0/32",
        "fd00:244::9/128",
        "fd00:244:1::/128",
        "fd00:7::2/128",
    }
    given = ("--set", "topoDiscovery.networkPolicy.controlPlane={10.0.0.0/28}")
    assert set(let_in((await rendered(cluster, tmp_path, *given)).stdout)) == {"10.0.0.0/28"}


async def test_where_no_host_is_labelled_each_may_ask_and_none_else(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """As where the provider runs the control plane."""
    done = await rendered(cluster, tmp_path)
    assert done.returncode == 0, done.stderr
    hosts = {
        each["address"]
        for node in await api.items(NODES)
        for each in node["status"].get("addresses", ())
        if each["type"] == "InternalIP"
    }
    cidrs = {
        cidr.partition("/")[0]
        for node in await api.items(NODES)
        for cidr in node["spec"].get("podCIDRs", ())
    }
    assert hosts
    assert {each.partition("/")[0] for each in let_in(done.stdout)} == hosts | cidrs
