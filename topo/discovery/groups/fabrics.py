"""The fabrics beside the first one, and the groups of each node in them.

Result: for each node its groups in every fabric that is not the one of the tree.

A cluster has several fabrics at once: wires between the GPUs of some nodes (scale-up), switches
between adapters (scale-out). Groups that nest make one tree. Where they do not, a tree can follow
one fabric alone: a dragonfly whose two nodes hang on two leaves is in neither leaf. So each further
fabric is kept as it is, as a path of each node, from its own source alone. Storage is none of them:
what storage servers share is no group (`fabric.switch_tiers`).

`FEEDS` is the table: who says what of which fabric. The mode names the first fabric; of the rows of
another one the first whose source is listened to feeds it, for the whole cluster, since groups of
two sources do not mix. In mode `config` the kinds of the file's groups name the first fabric, if
all groups that hold nodes are of kinds of one fabric (`FABRIC_OF_KIND`), in mode `labels` the first
of the families that the operator named, if its levels are of one. Else no source says which fabric
the groups belong to, and there is one tree: the writer of a family with levels of both states that
they are a chain, and a family that nobody named may be another one tomorrow.

Why no node is lost: a fabric that says nothing of a node leaves its path empty, and says why.

Cost: O(1) for each node that is placed anew.

Example: mode dragonfly, a wired to b and c to d; a and c hang on leaf-1, b and d on leaf-2. The
tree has (a, b) and (c, d). The row of the dumps gives a the path spine-1/leaf-1 in scale-out.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from topo.discovery.groups.membership import Membership
from topo.discovery.groups.tiers import (
    MEASURED,
    Position,
    Tier,
    TierSource,
    position,
    tiers_of,
)
from topo.discovery.modes import DiscoverySettings, Mode
from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Path, Reason
from topo.model.ids import FABRICS, SCALE_OUT, SCALE_UP, FabricName, NodeName, SourceName
from topo.model.observation import CLUSTER_NODES, FABRIC, WORKERS


class Feed(NamedTuple):
    """A source of a fabric. `missing`: why a node of which it says nothing has no group there."""

    fabric: FabricName
    source: SourceName
    tier: Tier
    missing: NodeCondition


def _of_switches(membership: Membership, node: NodeName) -> Path | Reason:
    return membership.fabric.find(node)


def _of_labels(membership: Membership, node: NodeName) -> Path | Reason | None:
    return membership.labelled.find(node, of_switches=True)


FEEDS: tuple[Feed, ...] = (
    Feed(SCALE_OUT, FABRIC, (TierSource(FABRIC, _of_switches),), NodeCondition.NOT_IN_FABRIC),
    Feed(
        SCALE_OUT,
        CLUSTER_NODES,
        (TierSource(CLUSTER_NODES, _of_labels),),
        NodeCondition.NO_GROUP_LABEL,
    ),
    Feed(SCALE_UP, WORKERS, MEASURED[Mode.AUTO], NodeCondition.NO_FABRIC),
)
"""Which source feeds which fabric, the one that is followed at the front."""
FIRST: Mapping[str, FabricName] = {
    Mode.DRAGONFLY: SCALE_UP,
    Mode.SWITCHBOX: SCALE_UP,
    Mode.NVLINK: SCALE_UP,
    Mode.AUTO: SCALE_UP,
    Mode.FABRIC: SCALE_OUT,
}
"""The fabric whose groups the tree has at its leaves; none where groups are written down."""


def reason_without(fabric: FabricName, source: SourceName) -> Reason:
    """Return why a node is in no group of a fabric that this source feeds."""
    return Reason.of(next(f.missing for f in FEEDS if (f.fabric, f.source) == (fabric, source)))


def fabric_of_tree(mode: Mode, membership: Membership) -> FabricName | None:
    """Return the fabric whose groups the tree has at its leaves; None where nobody says. O(1)."""
    if mode is Mode.LABELS:
        return membership.labelled.fabric
    return membership.declared.fabric if mode is Mode.CONFIG else FIRST.get(mode)


def feeds_of(first: FabricName | None, stated: tuple[SourceName, ...]) -> tuple[Feed, ...]:
    """Return what feeds each fabric but the first; `stated`: the sources that write groups down."""
    found: dict[FabricName, Feed] = {}
    for feed in FEEDS if first is not None else ():
        if feed.fabric != first and feed.source in (WORKERS, *stated):
            found.setdefault(feed.fabric, feed)
    return tuple(found.values())


def are_of_two_fabrics(
    settings: DiscoverySettings,
    membership: Membership,
    sources: Iterable[SourceName],
    node: NodeName,
) -> bool:
    """Return whether some of these sources place a node in the first fabric, others in another.

    Then their groups need not be the same, and differ without a conflict.
    """
    stated, first = settings.stated, fabric_of_tree(settings.mode, membership)
    known = {feed.fabric for feed in feeds_of(first, stated)}
    others = {
        feed.source
        for feed in FEEDS
        if feed.fabric in known and feed.source in stated
        if position(membership, (feed.tier,), node).path
    }
    return len({source in others for source in sources}) > 1


class Fabrics:
    """Where nodes belong in each fabric, by the sources that the operator chose."""

    def __init__(self, settings: DiscoverySettings) -> None:
        self._mode = settings.mode
        self._tiers = tiers_of(settings.mode, settings.stated)
        self._feeds = {first: feeds_of(first, settings.stated) for first in (None, *FABRICS)}

    def position(
        self, membership: Membership, node: NodeName, waiting: Reason | None = None
    ) -> Position:
        """Return the node's place; `waiting`: why it has none in the tree yet. O(1) as a rule."""
        first = Position((), waiting) if waiting else position(membership, self._tiers, node)
        feeds = self._feeds[fabric_of_tree(self._mode, membership)]
        if not feeds:
            return first
        placed = ((f.fabric, position(membership, (f.tier,), node).path) for f in feeds)
        found = tuple((fabric, path) for fabric, path in placed if path)
        return first._replace(elsewhere=found) if found else first
