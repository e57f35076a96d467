"""Whether labels, HyperNodes and the vendor's document say the same of every node.

It reads what users read and shares no line with what writes it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.controlplane.release import Release

DOMAIN = "metax-tech.com"
HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
MANAGED = f"{DOMAIN}/managed-by"
KINDS = ("dragonfly", "switchbox")


class Shown(NamedTuple):
    """The groups of the cluster: their members by kind and name, as one witness shows them."""

    groups: frozenset[tuple[str, str, frozenset[str]]]

    def __str__(self) -> str:
        return "; ".join(
            f"{kind} {name}: {sorted(nodes)}" for kind, name, nodes in sorted(self.groups)
        )


def of_document(document: Sequence[Any]) -> Shown:
    """What /node_group shows."""
    return Shown(frozenset(_groups(document)))


def of_labels(nodes: Sequence[Any]) -> Shown:
    """What the labels of the nodes show."""
    members: dict[tuple[str, str], set[str]] = {}
    for node in nodes:
        labels = node["metadata"].get("labels", {})
        for kind in KINDS:
            if (name := labels.get(f"{DOMAIN}/{kind}")) is not None:
                members.setdefault((kind, name), set()).add(node["metadata"]["name"])
    return Shown(frozenset((*group, frozenset(nodes)) for group, nodes in members.items()))


def of_hypernodes(hypernodes: Sequence[Any]) -> Shown:
    """What our HyperNodes show; tier 1 is a dragonfly, tier 2 a switchbox."""
    ours = {
        h["metadata"]["name"]: h for h in hypernodes if MANAGED in h["metadata"].get("labels", {})
    }
    return Shown(
        frozenset(
            (KINDS[each["spec"]["tier"] - 1], name, frozenset(_nodes_below(each, ours)))
            for name, each in ours.items()
        )
    )


async def disagreements(release: Release) -> list[str]:
    """What the three do not say alike, and what each says; empty where they agree."""
    document = await release.node_group()
    if document is None:
        return ["/node_group is not served"]
    said = {
        "the document": of_document(document),
        "the labels": of_labels(await release.api.items(NODES)),
        "the HyperNodes": of_hypernodes(await release.api.items(HYPERNODES)),
    }
    if len(set(said.values())) == 1:
        return []
    return [f"{witness}: {shown}" for witness, shown in said.items()]


async def doubts(release: Release) -> list[str]:
    """Why not every host is Ready in its groups with all three saying so; empty where it is so."""
    document = await release.node_group() or ()
    found = [f"{name} is {status}" for name, status in statuses(document) if status != "Ready"]
    hosts = {str(host.name) for host in release.hosts.world.nodes}
    found += [f"{name} is not in the document" for name in sorted(hosts - set(_leaves(document)))]
    return found or await disagreements(release)


async def events_of(api: Api, name: str, uid: str) -> list[Any]:
    """What `kubectl describe` shows that we told of an object without a namespace."""
    chosen = f"involvedObject.name={name},involvedObject.uid={uid}"
    found = await api.items("/api/v1/namespaces/default/events", fieldSelector=chosen)
    return [each for each in found if each.get("reportingComponent") == "topo-master"]


def broken(tree: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a tree of HyperNodes, by name: Volcano places nothing by such a one."""
    holders: Counter[tuple[str, str]] = Counter()
    for name, each in tree.items():
        members = _members(each)
        if not members:
            yield f"{name} is empty"
        holders.update(members)
        for kind, member in members:
            if kind == "HyperNode" and member not in tree:
                yield f"{name} names {member}, which is not there"
            elif kind == "HyperNode" and tree[member]["spec"]["tier"] >= each["spec"]["tier"]:
                yield f"{member} is not below {name}"
    yield from (
        f"{member} has {count} parents" for (_, member), count in holders.items() if count > 1
    )


def _members(hypernode: Any) -> list[tuple[str, str]]:
    listed = hypernode["spec"].get("members") or ()
    return [(each["type"], each["selector"]["exactMatch"]["name"]) for each in listed]


def _nodes_below(hypernode: Any, tree: Mapping[str, Any]) -> Iterator[str]:
    for kind, name in _members(hypernode):
        if kind == "Node":
            yield name
        elif name in tree:
            yield from _nodes_below(tree[name], tree)


def _groups(vertices: Sequence[Any]) -> Iterator[tuple[str, str, frozenset[str]]]:
    for vertex in vertices:
        if vertex["kind"] in KINDS:
            yield vertex["kind"], vertex["name"], frozenset(_leaves([vertex]))
            yield from _groups(vertex["child"])


def _leaves(vertices: Sequence[Any]) -> Iterator[str]:
    for vertex in vertices:
        if vertex["kind"] == "node":
            yield vertex["name"]
        else:
            yield from _leaves(vertex["child"])


def statuses(vertices: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Name and status of everything in the document."""
    for vertex in vertices:
        yield vertex["name"], vertex["status"]
        yield from statuses(vertex.get("child", ()))
