"""What is published for a scheduler: objects of one kind or of several, as values."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from topo.publish.topologies.chains import HOSTNAME, TierChain


class ObjectName(NamedTuple):
    """The kind of an object and its name; none of them is in a namespace."""

    kind: str
    name: str


WantedObjects = Mapping[ObjectName, Mapping[str, Any]]
"""The `spec` of each object, of the fields that are ours."""


def documents(
    wanted: WantedObjects, api_version: str, labels: Mapping[str, str]
) -> Iterator[Mapping[str, Any]]:
    """Yield the objects as they are applied, in the order in which they are to be made."""
    for (kind, name), spec in wanted.items():
        metadata = {"name": name, "labels": dict(labels)}
        yield {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def levels(chain: TierChain) -> Mapping[str, Any]:
    """Return the `spec` of a Topology of Kueue or KAI: the labels from the top, then the node."""
    return {"levels": [{"nodeLabel": label} for label in (*chain.labels, HOSTNAME)]}
