"""What is published for a scheduler: objects of one kind or of several, as values."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from topo.publish.topologies.chains import HOSTNAME, TierChain


class ObjectName(NamedTuple):
    """The kind of an object and its name; none of them is in a namespace."""

    kind: str
    name: str


WantedObjects = Mapping[ObjectName, Mapping[str, Any]]
"""The `spec` of each object, of the fields that are ours."""


def levels(chain: TierChain) -> Mapping[str, Any]:
    """Return the `spec` of a Topology of Kueue or KAI: the labels from the top, then the node."""
    return {"levels": [{"nodeLabel": label} for label in (*chain.labels, HOSTNAME)]}
