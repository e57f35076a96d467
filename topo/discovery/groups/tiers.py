"""Where a node belongs: the tiers of every mode, and the sources of each tier.

A *tier* turns a node into groups of its path, or into the reason why it has none. It asks its
sources in order, and the first that places the node is followed. There are two tiers at most: of
the sources that write groups down, in the order of `modes.stated_order`, and inside of it the one
that workers measure. A new mode is a new entry in `MEASURED`.

Labels, and a config file beside workers, stand above groups that were measured and follow the whole
of such a group: its members are in the groups that all of their statements agree on, so that what
is written parts no cable. A super pod that labels name and NPUs state, too, is there once, as the
NPUs have it. The cluster manager is followed node by node: what it parts is shown in
parts.

Example, mode switchbox: the manager puts node a into box-1, and a is wired to b. The first tier
answers (box-1), the second (dragonfly-0e68e453), so the path is box-1/dragonfly-0e68e453. Without
the cable the second tier answers `no-peer`: the path is box-1, and that reason is kept with it.
"""

from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import NamedTuple

from topo.discovery.groups.membership import Membership
from topo.discovery.groups.naming import Members
from topo.discovery.modes import WITHOUT_WORKERS, Mode
from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Path, PathGroup, Reason
from topo.model.ids import (
    DRAGONFLY,
    NVLINK_CLIQUE,
    NVLINK_DOMAIN,
    SUPER_POD,
    FabricName,
    GroupName,
    Kind,
    NodeName,
    SourceName,
)
from topo.model.observation import CLUSTER_MANAGER, CLUSTER_NODES, CONFIG_FILE, FABRIC, WORKERS

Elsewhere = tuple[tuple[FabricName, Path], ...]


class Position(NamedTuple):
    """A node's place in the tree. `missing`: why it has no path, or not its innermost tier.

    `elsewhere`: its groups in other fabrics.
    """

    path: Path
    missing: Reason | None = None
    elsewhere: Elsewhere = ()


class TierSource(NamedTuple):
    """What one source says of a tier. `find` returns None where the source is not asked."""

    source: SourceName
    find: Callable[[Membership, NodeName], Path | Reason | None]


Tier = tuple[TierSource, ...]


def position(membership: Membership, tiers: tuple[Tier, ...], node: NodeName) -> Position:
    """Return the node's place by these tiers. O(1) but for the first node of a group."""
    path: Path = ()
    missing: Reason | None = Reason.of(NodeCondition.UNKNOWN)
    for tier in tiers:
        for each in tier:
            found = each.find(membership, node)
            if isinstance(found, Reason):
                missing = found
                if found.code == NodeCondition.NO_GROUP_IN_CONFIG:
                    break  # to list a node outside of every group is a decision
            elif found:
                path, missing = path + found, None
                break
    return Position(path, missing)


def tiers_of(mode: Mode, stated: tuple[SourceName, ...]) -> tuple[Tier, ...]:
    """Return the tiers of a mode, outermost first; `stated`: who writes groups down, in order."""
    written = tuple(_written(mode, source, frozenset(stated)) for source in stated)
    return tuple(tier for tier in (written, MEASURED[mode]) if tier)


def _written(mode: Mode, source: SourceName, stated: frozenset[SourceName]) -> TierSource:
    """Return what a source that writes groups down says of the nodes of a mode."""
    find, members = _FIND[source], _MEMBERS[mode]
    measures_super_pods = _NVLINK in MEASURED[mode]
    at = _BY_NAME.index(source)
    others = tuple(each for each in _BY_NAME[:at] if each in stated)

    def named(membership: Membership, node: NodeName) -> Path | Reason | None:
        found = find(membership, node, members(membership, node))
        if measures_super_pods and membership.nvlink.super_pod(node) is not None:
            found = outside_super_pod(found) if isinstance(found, tuple) else found
        return _beside(membership, found, source, others) if others else found

    return TierSource(source, named)


def outside_super_pod(path: Path) -> Path:
    """Return the groups of a path that are around its super pod; all where it has none."""
    return tuple(takewhile(lambda group: group.kind != SUPER_POD, path))


def _beside(
    membership: Membership,
    found: Path | Reason | None,
    source: SourceName,
    others: tuple[SourceName, ...],
) -> Path | Reason | None:
    """Return a path that shares no root with another source: equal names there mean nothing."""
    if not isinstance(found, tuple) or not found:
        return found
    root, *below = found
    word, name = _SUFFIX[source], root.name
    if any(name in membership.root_names(other) for other in others):
        name = GroupName(f"{name}~{word}")
    return root._replace(key=f"{word}:{root.key}", name=name), *below


_BY_NAME = (CLUSTER_MANAGER, FABRIC, CONFIG_FILE, CLUSTER_NODES)
"""Of two groups of one name the one whose source stands here first keeps it."""
_SUFFIX: Mapping[SourceName, str] = {
    FABRIC: "fabric",
    CONFIG_FILE: "config",
    CLUSTER_NODES: "label",
}


def _stated(source: SourceName) -> "Find":
    """Return the groups on which a source's statements of all members agree."""

    def find(membership: Membership, node: NodeName, members: Members) -> Path | Reason | None:
        if len(members) < 2:
            return membership.statement(source, node)
        return membership.above(source, node, members)

    return find


def _managed(membership: Membership, node: NodeName, members: Members) -> Path | Reason:
    """Return the cluster manager's groups, without the dragonflies inside, which workers see.

    A node that the manager does not list follows its dragonfly, if the rest of it agrees: a
    dragonfly lies inside one group of the tier above.
    """
    chain = membership.machines.chain(node)
    if not chain:
        around = membership.chains(members)
        chain = next(iter(around)) if len(around) == 1 else ()
    if path := membership.machines.groups.path(chain):
        return path
    if membership.machines.machine(node) is None:
        return Reason.of(NodeCondition.NOT_MANAGED)
    text = "the cluster manager puts this machine in no group"
    return Reason(NodeCondition.NOT_MANAGED, text)


_IN_WORDS: Mapping[Kind, str] = {NVLINK_DOMAIN: "an NVLink domain", SUPER_POD: "a super pod"}


def _wired(membership: Membership, node: NodeName) -> Path | Reason:
    """Return the dragonfly of confirmed peer links."""
    component = membership.wiring.component(node)
    if len(component) < 2:
        if groups := membership.nvlink.groups(node):
            text = f"its GPUs state {_IN_WORDS[groups[0].kind]}, and it sees no server"
            return Reason(NodeCondition.OTHER_FABRIC, text)
        return Reason(NodeCondition.NO_PEER, _why_alone(membership, node))
    return membership.dragonfly(component)


def _why_alone(membership: Membership, node: NodeName) -> str:
    suspects = membership.wiring.suspects(node)
    if not suspects:
        return "its worker sees no peer"
    uuid, owners = suspects[0]
    if not owners:
        return f"it sees server {uuid}, which no worker has reported"
    return f"{', '.join(owners)} does not confirm the link from its side"


def _nvlink(membership: Membership, node: NodeName) -> Path | Reason:
    """Return the groups that the node's GPUs state: NVLink cluster and clique, or super pod and
    rack.
    """
    groups = membership.nvlink.groups(node)
    if not groups:
        if membership.wiring.has(node):
            text = "its worker reports servers over MetaXLink, and its GPUs state no NVLink domain"
            return Reason(NodeCondition.OTHER_FABRIC, text)
        return Reason.of(NodeCondition.NO_FABRIC)
    if groups[0].kind == SUPER_POD:
        racks = [PathGroup(kind, name, name, WORKERS) for kind, name in groups[1:]]
        return (membership.super_pod(node, groups[0].name), *racks)
    return tuple([PathGroup(kind, name, name, WORKERS, generated=True) for kind, name in groups])


def _alone(_membership: Membership, node: NodeName) -> Members:
    return frozenset((node,))


def _component(membership: Membership, node: NodeName) -> Members:
    return membership.wiring.component(node)


def _domain(membership: Membership, node: NodeName) -> Members:
    return membership.nvlink.members(node)


def _either(membership: Membership, node: NodeName) -> Members:
    in_domain = bool(membership.nvlink.groups(node))
    return (_domain if in_domain else _component)(membership, node)


Find = Callable[[Membership, NodeName, Members], Path | Reason | None]
_FIND: Mapping[SourceName, Find] = {
    CONFIG_FILE: _stated(CONFIG_FILE),
    CLUSTER_NODES: _stated(CLUSTER_NODES),
    FABRIC: _stated(FABRIC),
    CLUSTER_MANAGER: _managed,
}
_MEMBERS: Mapping[Mode, Callable[[Membership, NodeName], Members]] = {
    **dict.fromkeys(WITHOUT_WORKERS, _alone),
    Mode.DRAGONFLY: _component,
    Mode.SWITCHBOX: _component,
    Mode.NVLINK: _domain,
    Mode.AUTO: _either,
}
"""Of each mode the nodes that stand together with one by what workers measure, itself included."""
_WIRED = TierSource(WORKERS, _wired)
_NVLINK = TierSource(WORKERS, _nvlink)
MEASURED: Mapping[Mode, Tier] = {
    **dict.fromkeys(WITHOUT_WORKERS, ()),
    Mode.DRAGONFLY: (_WIRED,),
    Mode.SWITCHBOX: (_WIRED,),
    Mode.NVLINK: (_NVLINK,),
    Mode.AUTO: (_NVLINK, _WIRED),
}
"""Of each mode the groups that workers measure, each in the order of its rank."""


def innermost_kind(mode: Mode) -> Kind:
    """Return what the groups closest to the nodes are called in a mode."""
    return NVLINK_CLIQUE if mode is Mode.NVLINK else DRAGONFLY
