"""Where a node belongs: the tiers of every mode, and the sources of each tier.

A *tier* turns a node into groups of its path, or into the reason why it has none. It asks its
sources in order, and the first that places the node is followed. A mode is a list of tiers,
outermost first. A new mode is a new entry in `TIERS`.

A tier of labels above groups that others state follows the whole of such a group: its members are
in the groups that all of their labels agree on, so that a label parts no cable.

Example, mode switchbox: the manager puts node a into box-1, and a is wired to b. The first tier
answers (box-1), the second (dragonfly-0e68e453), so the path is box-1/dragonfly-0e68e453. Without
the cable the second tier answers `no-peer`: the path is box-1, and that reason is kept with it.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from topo.discovery.groups.membership import Membership
from topo.discovery.groups.path import Path, PathGroup
from topo.discovery.modes import Mode
from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Reason
from topo.model.ids import (
    DRAGONFLY,
    NVLINK_CLIQUE,
    NVLINK_DOMAIN,
    GroupName,
    Kind,
    NodeName,
    SourceName,
)
from topo.model.observation import CLUSTER_MANAGER, CLUSTER_NODES, CONFIG_FILE, WORKERS


class Position(NamedTuple):
    """A node's place in the tree. `missing`: why it has no path, or not its innermost tier."""

    path: Path
    missing: Reason | None = None


class TierSource(NamedTuple):
    """What one source says of a tier. `find` returns None where the source is not asked."""

    source: SourceName
    find: Callable[[Membership, NodeName], Path | Reason | None]


Tier = tuple[TierSource, ...]


def position(membership: Membership, mode: Mode, node: NodeName) -> Position:
    """Return the node's place by the tiers of a mode. O(1) but for the first node of a group."""
    path: Path = ()
    missing: Reason | None = Reason.of(NodeCondition.UNKNOWN)
    for tier in TIERS[mode]:
        for each in tier:
            found = each.find(membership, node)
            if isinstance(found, Reason):
                missing = found
            elif found:
                path, missing = path + found, None
                break
    return Position(path, missing)


def _declared(membership: Membership, node: NodeName) -> Path | Reason:
    """Return the groups written in the config file."""
    place = membership.declared.places.get(node)
    if place is None:
        return Reason.of(NodeCondition.NOT_IN_CONFIG)
    return place.path or Reason.of(NodeCondition.NO_GROUP_IN_CONFIG)


def _wired(membership: Membership, node: NodeName) -> Path | Reason:
    """Return the dragonfly of confirmed peer links."""
    component = membership.wiring.component(node)
    if len(component) < 2:
        if membership.nvlink.names(node) is not None:
            text = "its GPUs state an NVLink domain, and it sees no server"
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


def _managed(membership: Membership, node: NodeName) -> Path | Reason:
    """Return the cluster manager's groups, without the dragonflies inside, which workers see.

    A node that the manager does not list follows its dragonfly, if the rest of it agrees: a
    dragonfly lies inside one group of the tier above.
    """
    chain = membership.machines.chain(node)
    if not chain:
        around = membership.chains(membership.wiring.component(node))
        chain = next(iter(around)) if len(around) == 1 else ()
    if path := membership.machines.groups.path(chain):
        return path
    if membership.machines.machine(node) is None:
        return Reason.of(NodeCondition.NOT_MANAGED)
    text = "the cluster manager puts this machine in no group"
    return Reason(NodeCondition.NOT_MANAGED, text)


def _nvlink(membership: Membership, node: NodeName) -> Path | Reason:
    """Return the NVLink cluster and the clique that the node's GPUs state."""
    names = membership.nvlink.names(node)
    if names is None:
        if membership.wiring.has(node):
            text = "its worker reports servers over MetaXLink, and its GPUs state no NVLink domain"
            return Reason(NodeCondition.OTHER_FABRIC, text)
        return Reason.of(NodeCondition.NO_FABRIC)
    cluster, clique = names
    return (
        PathGroup(NVLINK_DOMAIN, cluster, cluster, WORKERS, generated=True),
        PathGroup(NVLINK_CLIQUE, clique, clique, WORKERS, generated=True),
    )


def _labelled(membership: Membership, node: NodeName) -> Path | Reason | None:
    """Return the groups that the node's own labels name."""
    return membership.labelled.find(node)


def _labelled_links(membership: Membership, node: NodeName) -> Path | Reason | None:
    """Return the groups above the node's dragonfly that labels name."""
    return membership.above(node, membership.wiring.component(node))


def _labelled_domain(membership: Membership, node: NodeName) -> Path | Reason | None:
    """Return the groups above the node's NVLink domain that labels name."""
    return membership.above(node, membership.nvlink.members(node))


def _labelled_either(membership: Membership, node: NodeName) -> Path | Reason | None:
    """Return the groups that labels name above whatever the workers see."""
    in_domain = membership.nvlink.names(node) is not None
    return (_labelled_domain if in_domain else _labelled_links)(membership, node)


def _labelled_undeclared(membership: Membership, node: NodeName) -> Path | Reason | None:
    """Return the groups that labels name for a node that the config file does not list."""
    if membership.declares(node):
        return None
    return _beside(_labelled(membership, node), membership.declared.root_names)


def _labelled_unmanaged(membership: Membership, node: NodeName) -> Path | Reason | None:
    """Return the groups that labels name above a dragonfly that the manager does not list."""
    found = _labelled_links(membership, node)
    return _beside(found, membership.machines.groups.root_names)


def _beside(found: Path | Reason | None, taken: AbstractSet[GroupName]) -> Path | Reason | None:
    """Return a path that shares no root with another source: equal names there mean nothing."""
    if not isinstance(found, tuple) or not found:
        return found
    root, *below = found
    name = GroupName(f"{root.name}~label") if root.name in taken else root.name
    return root._replace(key=f"label:{root.key}", name=name), *below


DECLARED = TierSource(CONFIG_FILE, _declared)
LABELLED = TierSource(CLUSTER_NODES, _labelled)
LABELLED_LINKS = TierSource(CLUSTER_NODES, _labelled_links)
LABELLED_UNDECLARED = TierSource(CLUSTER_NODES, _labelled_undeclared)
LABELLED_UNMANAGED = TierSource(CLUSTER_NODES, _labelled_unmanaged)
LABELLED_DOMAINS = TierSource(CLUSTER_NODES, _labelled_domain)
LABELLED_EITHER = TierSource(CLUSTER_NODES, _labelled_either)
MANAGED = TierSource(CLUSTER_MANAGER, _managed)
WIRED = TierSource(WORKERS, _wired)
NVLINK = TierSource(WORKERS, _nvlink)

TIERS: Mapping[Mode, tuple[Tier, ...]] = {
    Mode.CONFIG: ((DECLARED, LABELLED_UNDECLARED),),
    Mode.LABELS: ((LABELLED,),),
    Mode.DRAGONFLY: ((LABELLED_LINKS,), (WIRED,)),
    Mode.SWITCHBOX: ((MANAGED, LABELLED_UNMANAGED), (WIRED,)),
    Mode.NVLINK: ((LABELLED_DOMAINS,), (NVLINK,)),
    Mode.AUTO: ((LABELLED_EITHER,), (NVLINK, WIRED)),
}
"""Of each mode its tiers, outermost first, each with its sources in the order of their rank."""


def innermost_kind(mode: Mode) -> Kind:
    """Return what the groups closest to the nodes are called in a mode."""
    return NVLINK_CLIQUE if mode is Mode.NVLINK else DRAGONFLY
