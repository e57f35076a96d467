"""The groups of each node as NodeFeature objects of Node Feature Discovery (NFD).

Format: `nfd.k8s-sigs.io/v1alpha1` of kubernetes-sigs/node-feature-discovery. Its master makes the
labels of a node from the objects that name it, and takes them away with the object.

An object has the labels that `topo.publish.node_labels` gives, and the same groups by kind as the
feature `topo.groups`, for rules (`NodeFeatureRule`) that make other labels of it. Objects, not
feature files: which nodes are a group is known here and not on a node, and no host path is mounted.
O(nodes).

Example: node-1 in switchbox-1/dragonfly-1 is the object topo-node-1 with the label
metax-tech.com/dragonfly=dragonfly-1 and the element dragonfly: dragonfly-1. Of a fabric beside the
tree they are metax-tech.com/scale-out-leaf=leaf-7 and scale-out-leaf: leaf-7.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from topo.model.forest import Forest
from topo.model.ids import FABRICS, Kind, NodeName
from topo.publish.names import MAX_DNS_NAME_CHARS, is_dns_name
from topo.publish.node_labels import NO_FABRICS, Fabrics, Labels, fabric_keys, node_labels

API_VERSION = "nfd.k8s-sigs.io/v1alpha1"
NODE_NAME_LABEL = "nfd.node.kubernetes.io/node-name"
MANAGED_BY = ("app.kubernetes.io/managed-by", "topo-export")
"""The label by which `kubectl apply --prune` finds what an earlier run wrote."""
FEATURE = "topo.groups"
_PREFIX = "topo-"
_MAX_LABEL_CHARS = 63


def node_features(
    forest: Forest, keys: Mapping[Kind, str], namespace: str, beside: Fabrics = NO_FABRICS
) -> Iterator[Mapping[str, Any]]:
    """Yield the object of each node that is in a group with a key, in the order of the forest.

    A node is left out whose name is no label value or no part of an object's name.
    """
    names = element_names(keys)
    for name, labels in node_labels(forest, keys, beside).items():
        if labels and can_name(name):
            yield {
                "apiVersion": API_VERSION,
                "kind": "NodeFeature",
                "metadata": {
                    "name": object_name(name),
                    "namespace": namespace,
                    "labels": {NODE_NAME_LABEL: name, MANAGED_BY[0]: MANAGED_BY[1]},
                },
                "spec": feature_spec(labels, names),
            }


def element_names(keys: Mapping[Kind, str]) -> Mapping[str, str]:
    """Return what each label is called among the elements: the kind, after a further fabric."""
    names = {key: str(kind) for kind, key in keys.items()}
    for fabric in FABRICS:
        names |= {key: f"{fabric}-{kind}" for kind, key in fabric_keys(fabric, keys).items()}
    return names


def feature_spec(labels: Labels, names: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the `spec` of a node with these labels; `names` are those of their elements."""
    elements = {names[key]: value for key, value in labels.items()}
    features = {"flags": {}, "attributes": {FEATURE: {"elements": elements}}, "instances": {}}
    return {"labels": dict(labels), "features": features}


def object_name(node: str) -> str:
    """Return the name of a node's object. NFD's own worker has one called like the node."""
    return f"{_PREFIX}{node}"


def node_of(name: str) -> str:
    """Return the node whose object has this name; "" for one that is not called like ours."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else ""


def can_name(node: NodeName) -> bool:
    """Return whether a node can have an object: its name is a label value there."""
    fits = len(node) <= min(_MAX_LABEL_CHARS, MAX_DNS_NAME_CHARS - len(_PREFIX))
    return fits and is_dns_name(node)


def manifest(objects: Iterator[Mapping[str, Any]]) -> str:
    """Return the objects as one text for `kubectl apply -f -`: a JSON document each, in YAML's
    stream of documents.
    """
    return "".join(f"---\n{json.dumps(each, indent=2)}\n" for each in objects)
