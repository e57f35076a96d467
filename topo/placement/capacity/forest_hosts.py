"""The hosts of a published forest and the cluster's nodes, and which of them differ.

Whoever follows a forest, and whoever checks from nothing what was followed, makes them here.
"""

from collections.abc import Iterator, Mapping

from topo.model.cluster import ClusterNode
from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Forest, Group, Node, Status
from topo.model.ids import GroupPath, Kind, NodeName
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import HOSTNAME, Difference, Host, joined
from topo.placement.job.policy import Policy
from topo.placement.job.request import OtherGroup

SUSPECTED_PENALTY = 10
"""Of a node with links that cannot be trusted: more than that of a whole group in a usage pool that
is not the job's own (`Policy.pool_penalties`), and never a refusal."""

_Chain = tuple[Group, ...]
_Found = dict[NodeName, tuple[Node, _Chain]]
Differences = dict[NodeName, tuple[Node, _Chain] | None]
"""Nodes that may not be as they were: with the groups above them now, None where they are gone."""


def hosts_of(
    forest: Forest,
    cluster: Mapping[NodeName, ClusterNode] | None = None,
    policy: Policy = Policy(),  # noqa: B008  # frozen, safe to share
) -> dict[NodeName, Host]:
    """Return the host of every node of a forest and a cluster; O(nodes)."""
    stated = cluster or {}
    seen = {node.name: forest_half(node, chain, policy.domain) for node, chain in _nodes(forest)}
    names = (*seen, *(name for name in stated if name not in seen))
    hosts = (joined(seen.get(name), stated.get(name), policy) for name in names)
    return {host.name: host for host in hosts if host is not None}


def host_differences(
    capacity: CapacityView, forest: Forest, cluster: Mapping[NodeName, ClusterNode]
) -> tuple[Difference, ...]:
    """Return the nodes whose host is not the join of forest and cluster; O(nodes)."""
    there = hosts_of(forest, cluster, capacity.policy)
    here = {host.name: host for host in capacity.hosts()}
    return tuple(
        Difference(name, _gpu_count(there, name), _gpu_count(here, name))
        for name in (*there, *(here.keys() - there.keys()))
        if there.get(name) != here.get(name)
    )


def _gpu_count(hosts: Mapping[NodeName, Host], name: NodeName) -> int:
    host = hosts.get(name)
    return host.gpus if host is not None else 0


def differences(before: Forest, after: Forest) -> Differences:
    """Return the nodes in subtrees that are not the same object in both; safe in any thread.

    O(changes x fan-out).
    """
    gone, come = _differences(before, after)
    return {**dict.fromkeys(gone.keys() - come.keys()), **come}


def _differences(before: Forest, after: Forest) -> tuple[_Found, _Found]:
    """Return the nodes of the differing subtrees, before and after."""
    gone: _Found = {}
    come: _Found = {}
    if before.unplaced is not after.unplaced:
        old = {id(each.node): each.node for each in before.unplaced}
        new = {id(each.node): each.node for each in after.unplaced}
        gone |= {node.name: (node, ()) for key, node in old.items() if key not in new}
        come |= {node.name: (node, ()) for key, node in new.items() if key not in old}
    if before.roots is not after.roots:
        _compare((before.roots, ()), (after.roots, ()), gone, come)
    return gone, come


def _compare(
    before: tuple[tuple[Group | Node, ...], _Chain],
    after: tuple[tuple[Group | Node, ...], _Chain],
    gone: _Found,
    come: _Found,
) -> None:
    """Compare the children of a group before and after; recurse into groups that stay in place."""
    (old, old_chain), (new, new_chain) = before, after
    # The same object is the same subtree: snapshots share all that did not change.
    rest = {id(child): child for child in old}
    fresh = [child for child in new if rest.pop(id(child), None) is None]
    groups = {_identity(child): child for child in rest.values() if isinstance(child, Group)}
    for child in fresh:
        twin = groups.get(_identity(child)) if isinstance(child, Group) else None
        if isinstance(child, Group) and twin is not None:
            del rest[id(twin)]
            _compare(
                (twin.children, (*old_chain, twin)),
                (child.children, (*new_chain, child)),
                gone,
                come,
            )
        else:
            come.update(_below(child, new_chain))
    for child in rest.values():
        gone.update(_below(child, old_chain))


def _identity(child: Group | Node) -> tuple[object, ...]:
    """Return the facts that a host stores about a group above it."""
    if isinstance(child, Node):
        return (child.name,)
    return child.name, child.kind, child.tier, child.place


def _below(child: Group | Node, chain: _Chain) -> _Found:
    return {node.name: (node, above) for node, above in _leaves(child, chain)}


def _leaves(child: Group | Node, chain: _Chain) -> Iterator[tuple[Node, _Chain]]:
    if isinstance(child, Node):
        yield child, chain
        return
    inner = (*chain, child)
    for below in child.children:
        yield from _leaves(below, inner)


def _nodes(forest: Forest) -> Iterator[tuple[Node, _Chain]]:
    for root in forest.roots:
        yield from _leaves(root, ())
    for each in forest.unplaced:
        yield each.node, ()


def forest_half(node: Node, chain: _Chain, domain: str) -> Host:
    """Return a node as the forest describes it, with the labels of its place and GPUs.

    The forest states nothing about a node without a worker: the cluster alone decides whether it is
    ready, and no GPU was seen.
    """
    is_unseen = any(each.code == NodeCondition.NO_WORKER for each in node.reasons)
    labels = {HOSTNAME: str(node.name)}
    if node.gpu_type:
        labels[f"{domain}/gpu.product"] = node.gpu_type
    labels |= {f"{domain}/{group.kind}": str(group.name) for group in chain}
    held = node.suspicion
    is_suspected = held is not None and bool(held.links)
    quarantine = held.quarantine if held is not None else None
    return Host(
        name=node.name,
        path=GroupPath(tuple(group.name for group in chain)),
        kinds=tuple(Kind(group.kind) for group in chain),
        tiers=tuple(group.tier for group in chain),
        places=tuple(group.place or group.name for group in chain),
        gpus=0 if is_unseen else node.gpus,
        gpu_type=node.gpu_type,
        ready=node.status is Status.READY or is_unseen,
        cordoned=quarantine is not None,
        quarantine=quarantine,
        penalty=SUSPECTED_PENALTY if is_suspected else 0,
        suspected=is_suspected,
        elsewhere=tuple(
            OtherGroup(fabric, group.kind, GroupPath(tuple(each.name for each in path[: n + 1])))
            for fabric, path in node.elsewhere
            for n, group in enumerate(path)
        ),
        labels=tuple(sorted(labels.items())),
    )
