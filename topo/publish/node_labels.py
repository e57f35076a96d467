"""The labels of each node, from which schedulers know which nodes are close.

One label per kind of group, its value the group's name among those of its kind (`names`). Kueue
(Topology), KAI, Koordinator, pod affinity and plain selectors all read such labels.

Example: node-1 in switchbox-1/dragonfly-1 has metax-tech.com/switchbox=switchbox-1 and
metax-tech.com/dragonfly=dragonfly-1; a node in no group has neither.

A group of a fabric beside the tree has the label of its kind with the fabric before the name. So no
label says two things: where leaves stand both in the tree and beside it, only the names tell.

Example: node-1 hangs on leaf-7 as well: metax-tech.com/scale-out-leaf=leaf-7.
"""

from collections.abc import Mapping
from types import MappingProxyType

from topo.model.forest import Forest, Group
from topo.model.ids import FABRICS, KNOWN_KINDS, NODE, FabricName, GroupPath, Kind, NodeName
from topo.publish.names import LABEL_VALUE, is_dns_name, unique_names

Labels = Mapping[str, str]
Fabrics = Mapping[FabricName, Forest]
"""The forests of the same nodes in the fabrics beside the tree."""
NO_FABRICS: Fabrics = MappingProxyType({})
RESERVED_PREFIXES = ("kubernetes.io", "k8s.io")
"""Names of Kubernetes itself; a label below them may move pods or name machines."""


def is_label_key(text: str) -> bool:
    """Return whether a label may be called so: `name` or `prefix/name`, and the prefix not
    Kubernetes's.

    Source: kubernetes.io, "Labels and Selectors".
    """
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_name(prefix):
        return False
    reserved = any(prefix == each or prefix.endswith(f".{each}") for each in RESERVED_PREFIXES)
    return bool(LABEL_VALUE.valid.fullmatch(name)) and not reserved


def label_keys(domain: str, renamed: Mapping[Kind, str]) -> Mapping[Kind, str]:
    """Return the label of each kind of group: `<domain>/<kind>` for the known kinds, or as it is
    renamed.

    An unknown kind of groups comes from a file or a manager, and could be called like a
    label that means something else. It has a label only when it is given one.
    """
    known = {kind: f"{domain}/{kind}" for kind in KNOWN_KINDS if kind != NODE}
    return {**known, **renamed}


def fabric_keys(fabric: FabricName, keys: Mapping[Kind, str]) -> Mapping[Kind, str]:
    """Return the label of each kind in a fabric beside the tree, `<prefix>/<fabric>-<name>`.

    A kind has none whose label would be too long, or is that of another kind.
    """
    found = {}
    for kind, key in keys.items():
        prefix, slash, name = key.rpartition("/")
        found[kind] = f"{prefix}{slash}{fabric}-{name}"
    taken = frozenset(keys.values())
    return {kind: key for kind, key in found.items() if is_label_key(key) and key not in taken}


def every_key(keys: Mapping[Kind, str]) -> frozenset[str]:
    """Return all labels that nodes may have: of the tree, and of each fabric."""
    beside = (fabric_keys(fabric, keys).values() for fabric in FABRICS)
    return frozenset(keys.values()).union(*beside)


def node_labels(
    forest: Forest, keys: Mapping[Kind, str], beside: Fabrics = NO_FABRICS
) -> Mapping[NodeName, Labels]:
    """Return the labels of every known node; empty for a node in no group. O(nodes).

    Of two groups of a kind inside each other, the inner one counts.
    """
    found = _labels_of(forest, keys)
    for fabric, other in beside.items():
        for node, labels in _labels_of(other, fabric_keys(fabric, keys)).items():
            if labels:
                found[node] = {**found.get(node, {}), **labels}
    return found


def _labels_of(forest: Forest, keys: Mapping[Kind, str]) -> dict[NodeName, Labels]:
    values = _values(forest)
    found: dict[NodeName, Labels] = {entry.node.name: {} for entry in forest.unplaced}
    of_path: dict[GroupPath, Labels] = {GroupPath(()): {}}
    for above, vertex in forest.walk():
        if isinstance(vertex, Group):
            path, key = GroupPath((*above, vertex.name)), keys.get(vertex.kind)
            own = {key: values[path]} if key is not None else {}
            of_path[path] = {**of_path[above], **own}
        else:
            found[vertex.name] = of_path[above]
    return found


def _values(forest: Forest) -> Mapping[GroupPath, str]:
    """Return the label value of each group; unique among the groups of its kind."""
    by_kind: dict[Kind, list[GroupPath]] = {}
    for path, group in forest.groups():
        by_kind.setdefault(group.kind, []).append(path)
    values: dict[GroupPath, str] = {}
    for paths in by_kind.values():
        values.update(unique_names(paths, LABEL_VALUE))
    return values
