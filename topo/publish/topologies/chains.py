"""The chains of tiers in a forest: which kinds of groups a node is in, from the root to the node.

Kueue, KAI and Koordinator read the labels of nodes, tier by tier, and each of their topologies is
one list of labels: a node that lacks one of these is not in it. So nodes with other tiers need a
topology of their own, and there is one chain for each list of tiers that some node has.

How: walk the forest once; a group adds the label of its kind to the chain of what is below it. A
kind without a label adds nothing, as the labels of nodes do (`node_labels`), and where a kind
stands inside itself the inner group counts there, so it is the inner one here, too.

A fabric beside the tree has chains of its own: no label of one fabric is a level of another's.

The name of a chain says its kinds, and the fabric if it is not the tree. A label under another name
than `<domain>/<kind>` gives the name eight hex digits over the labels: the levels of a topology
never change, and other levels need another object. So two chains with one name have the same
labels.

Cost: O(nodes + groups).

Example: box-1/fly-1 {a, b}, box-1 {c}, fly-9 {d} with the usual labels
    → supernode-switchbox-dragonfly (2 nodes), supernode-switchbox (1), supernode-dragonfly (1)
and a to d on leaves of scale-out → supernode-scale-out-leaf (4)
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from topo.model.forest import Forest, Group
from topo.model.ids import FabricName, GroupPath, Kind
from topo.publish.names import LIMIT_CHARS, OBJECT_NAME
from topo.publish.node_labels import Fabrics, fabric_keys, label_keys

HOSTNAME = "kubernetes.io/hostname"
"""The label of the lowest level: one node."""
PREFIX = "supernode"
MOST_TIERS = 15
"""Kueue and KAI take 16 levels, and the node is one. Of more tiers the lowest count."""
MOST_CHAINS = 32
"""Of more lists of tiers, those that the most nodes have. Real clusters have one or two."""
_DIGITS = 8

Tiers = tuple[Kind, ...]
"""Kinds of groups from the root down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierChain:
    """One list of tiers from the root down: its kinds, their labels, and how many nodes have it."""

    name: str
    kinds: Tiers
    labels: tuple[str, ...]
    nodes: int


def all_chains(
    forest: Forest, keys: Mapping[Kind, str], domain: str, beside: Fabrics
) -> tuple[TierChain, ...]:
    """Return the chains of the tree, then those of each fabric beside it."""
    found = list(tier_chains(forest, keys, domain))
    for fabric, other in beside.items():
        found += tier_chains(other, fabric_keys(fabric, keys), domain, fabric)
    return tuple(found)


def tier_chains(
    forest: Forest, keys: Mapping[Kind, str], domain: str, fabric: FabricName | None = None
) -> tuple[TierChain, ...]:
    """Return the chains of all nodes in groups, that of the most nodes first.

    `keys` are those of the `fabric`, None of the tree.
    """
    counts: Counter[Tiers] = Counter()
    tiers: dict[GroupPath, Tiers] = {GroupPath(()): ()}
    for above, vertex in forest.walk():
        if isinstance(vertex, Group):
            inside = tiers[above]
            if vertex.kind in keys:
                inside = (*(kind for kind in inside if kind != vertex.kind), vertex.kind)
            tiers[GroupPath((*above, vertex.name))] = inside
        elif tiers[above]:
            counts[tiers[above][-MOST_TIERS:]] += 1
    ordered = sorted(counts.items(), key=lambda each: (-each[1], -len(each[0]), each[0]))
    usual = label_keys(domain, {})
    if fabric is not None:
        usual = fabric_keys(fabric, usual)
    found = []
    for kinds, nodes in ordered[:MOST_CHAINS]:
        labels = tuple(keys[kind] for kind in kinds)
        words = (PREFIX, *kinds) if fabric is None else (PREFIX, fabric, *kinds)
        name = _name(words, labels, is_usual=labels == tuple(map(usual.get, kinds)))
        found.append(TierChain(name=name, kinds=kinds, labels=labels, nodes=nodes))
    return tuple(found)


def _name(words: tuple[str, ...], labels: tuple[str, ...], *, is_usual: bool) -> str:
    name = "-".join(words)
    if is_usual and OBJECT_NAME.valid.fullmatch(name):
        return name
    digits = sha256("\0".join(labels).encode()).hexdigest()[:_DIGITS]
    return f"{OBJECT_NAME.cleaned(name, LIMIT_CHARS - 1 - _DIGITS)}-{digits}"
