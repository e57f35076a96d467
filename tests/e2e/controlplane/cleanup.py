"""What a cluster held when a test began, and back to it: what came is deleted, nodes are mended.

The resources are those that the API server says it has, so nothing that a test makes is forgotten.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.e2e.controlplane import nodes
from tests.e2e.controlplane.client import METADATA_ONLY, Api
from tests.support.waiting import CEILING_S

_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_NODE_LEASES = "kube-node-lease"
_OF_A_PROCESS = "apiserver.kubernetes.io/identity"
"""Label of the lease by which an API server says that it runs: it makes a lost one anew, late."""
_OF_THE_CLUSTER = {
    "serviceaccounts": "default",
    "configmaps": "kube-root-ca.crt",
    "clustertrustbundles": "kubernetes.io:kube-apiserver-serving:",
}
"""Kinds, and how the names of the objects begin that controllers make, late, and make anew."""
_IN_BACKGROUND = {"namespaces", "endpoints", "endpointslices", "controllerrevisions"}
"""What Kubernetes' own controllers take away, later, once their owner is gone."""
_LOOK_S = 0.02


class Kept(NamedTuple):
    """One object: the path of its collection, its own path, its uid."""

    collection: str
    path: str
    uid: str


@dataclass(frozen=True)
class Baseline:
    """All objects of a cluster, and its nodes whole, at one time."""

    collections: Mapping[str, bool]
    """The path of each kind of object, and whether it lies in namespaces."""
    objects: frozenset[Kept]
    nodes: Mapping[str, Any]

    @classmethod
    async def of(cls, api: Api) -> "Baseline":
        """What the cluster holds now."""
        collections = {path: scoped async for path, scoped in _collections(api)}
        objects = await _objects(api, collections)
        found = {node["metadata"]["name"]: node for node in await api.items(nodes.NODES)}
        return cls(collections, frozenset(objects), found)

    async def added(self, api: Api) -> set[Kept]:
        """What is there now and was not then."""
        return await _objects(api, self.collections) - self.objects

    async def restore(self, api: Api) -> None:
        """Deletes what came and mends the nodes; raises `TimeoutError` naming what stays."""
        added = set[Kept]()
        try:
            async with asyncio.timeout(CEILING_S):
                while added := await self.added(api):
                    await asyncio.gather(*(_remove(api, kept) for kept in added))
                    if all(_kind(kept) in _IN_BACKGROUND for kept in added):
                        break
                    await asyncio.sleep(_LOOK_S)
                await self.mend(api)
        except TimeoutError:
            stays = sorted(kept.path for kept in added)
            raise TimeoutError(f"there still, or there again: {', '.join(stays)}") from None

    async def mend(self, api: Api) -> None:
        """Puts the nodes back: those that are lost, what was written on others; new ones go."""
        found = {node["metadata"]["name"]: node for node in await api.items(nodes.NODES)}
        came = found.keys() - self.nodes.keys()
        await asyncio.gather(*(api.delete(f"{nodes.NODES}/{name}") for name in came))
        lost = [node for name, node in self.nodes.items() if name not in found]
        await asyncio.gather(
            *(
                _mend(api, self.nodes[name], node)
                for name, node in found.items()
                if name in self.nodes
            )
        )
        if lost:
            await nodes.create(api, [_fresh(node) for node in lost])


async def _collections(api: Api) -> Any:
    for root in ("/api", "/apis"):
        for group in (await api.call("GET", root, accept=_DISCOVERY))["items"]:
            if group["metadata"].get("name") == "events.k8s.io":
                continue  # the same objects are in the core group
            version = group["versions"][0]
            name = group["metadata"].get("name")
            base = f"{root}/{name}/{version['version']}" if name else f"{root}/{version['version']}"
            for resource in version["resources"]:
                if {"list", "delete"} <= set(resource["verbs"]) and resource["resource"] != "nodes":
                    yield f"{base}/{resource['resource']}", resource["scope"] == "Namespaced"


async def _objects(api: Api, collections: Mapping[str, bool]) -> set[Kept]:
    listed = await asyncio.gather(
        *(api.call("GET", path, accept=METADATA_ONLY) for path in collections)
    )
    return {
        kept
        for (path, scoped), found in zip(collections.items(), listed, strict=True)
        for kept in _kept(path, found, scoped=scoped)
    }


def _kept(path: str, listed: Any, *, scoped: bool) -> Iterator[Kept]:
    base, _, resource = path.rpartition("/")
    for each in listed["items"] or ():
        metadata = each["metadata"]
        if metadata.get("namespace") == _NODE_LEASES or _OF_A_PROCESS in metadata.get("labels", {}):
            continue  # they come and go with nodes and processes
        if metadata["name"].startswith(_OF_THE_CLUSTER.get(resource, "/")):
            continue  # they come and go with namespaces and processes
        own = f"{base}/namespaces/{metadata['namespace']}/{resource}" if scoped else path
        yield Kept(own, f"{own}/{metadata['name']}", metadata["uid"])


def _kind(kept: Kept) -> str:
    return kept.collection.rpartition("/")[2]


async def _remove(api: Api, kept: Kept) -> None:
    await api.delete(kept.path, grace_s=0)


async def _mend(api: Api, then: Any, now: Any) -> None:
    """Puts back what a test changed of a node, and only that."""
    path = f"{nodes.NODES}/{then['metadata']['name']}"
    metadata = {
        field: changes
        for field in ("labels", "annotations")
        if (changes := _undone(then["metadata"].get(field, {}), now["metadata"].get(field, {})))
    }
    spec = _undone(_written(then), _written(now))
    if metadata or spec:
        await api.merge(path, {"metadata": metadata, "spec": spec})
    amounts = {field: then["status"][field] for field in ("capacity", "allocatable")}
    if any(now["status"].get(field) != amount for field, amount in amounts.items()):
        await api.merge(f"{path}/status", {"status": amounts})


def _written(node: Any) -> dict[str, Any]:
    """What people and tests write into a node's spec."""
    return {
        name: node["spec"][name] for name in ("taints", "unschedulable") if name in node["spec"]
    }


def _undone(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that makes `now` into `then`."""
    back = {name: value for name, value in then.items() if now.get(name) != value}
    return {**back, **{name: None for name in now if name not in then}}


def _fresh(node: Any) -> Any:
    """A node that can be created again as it was."""
    metadata = {name: node["metadata"].get(name, {}) for name in ("name", "labels", "annotations")}
    amounts = {name: node["status"][name] for name in ("capacity", "allocatable", "addresses")}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": amounts}
