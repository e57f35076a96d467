"""Hosts from the published forest, and a capacity that follows it by what changed."""

from collections.abc import Iterator

from topo.model.forest import Forest, Group, Node, Status
from topo.model.ids import GroupPath, Kind, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import Host

DOMAIN = "metax-tech.com"
"""Prefix of the labels (the vendor's domain: `metax-tech.com/dragonfly`)."""
HOSTNAME = "kubernetes.io/hostname"

_Chain = tuple[Group, ...]


def hosts_of(forest: Forest, domain: str = DOMAIN) -> dict[NodeName, Host]:
    """Every known node as a host, the unplaced in no group; O(nodes).

    Until Kubernetes brings labels, a node has those that its place and its GPUs imply.
    """
    found = (_host(node, chain, domain) for node, chain in _nodes(forest))
    return {host.name: host for host in found}


class Follower:
    """Keeps the hosts of a capacity those of the forest. Hosts from elsewhere are left alone."""

    def __init__(self, capacity: Capacity, domain: str = DOMAIN) -> None:
        self._capacity, self._domain = capacity, domain
        self._forest = Forest()

    def follow(self, forest: Forest) -> int:
        """Take over a forest; the number of hosts that changed, came or went.

        Subtrees that are the same objects as before are not looked at: O(changes x fan-out).
        """
        before, self._forest = self._forest, forest
        gone, come = _differences(before, forest)
        for name in gone.keys() - come.keys():
            self._capacity.remove(name)
        changed = len(gone.keys() - come.keys())
        for name, (node, chain) in come.items():
            host = _host(node, chain, self._domain)
            changed += host != self._capacity.host(name)
            self._capacity.upsert(host)
        return changed


_Found = dict[NodeName, tuple[Node, _Chain]]


def _differences(before: Forest, after: Forest) -> tuple[_Found, _Found]:
    """The nodes of the subtrees that are not the same, as they were and as they are."""
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
    """Children of the same group then and now; a group of the same place is looked into."""
    (old, old_chain), (new, new_chain) = before, after
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
    """What a host knows of a group above it."""
    return (child.name, child.kind, child.tier) if isinstance(child, Group) else (child.name,)


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


def _host(node: Node, chain: _Chain, domain: str) -> Host:
    labels = {HOSTNAME: str(node.name)}
    if node.gpu_type:
        labels[f"{domain}/gpu.product"] = node.gpu_type
    labels |= {f"{domain}/{group.kind}": str(group.name) for group in chain}
    return Host(
        name=node.name,
        path=GroupPath(tuple(group.name for group in chain)),
        kinds=tuple(Kind(group.kind) for group in chain),
        tiers=tuple(group.tier for group in chain),
        gpus=node.gpus,
        gpu_type=node.gpu_type,
        ready=node.status is Status.READY,
        labels=tuple(sorted(labels.items())),
    )
