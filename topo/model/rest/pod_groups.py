"""Groups of pods on nodes, as plans and holds have them."""

from typing import Annotated

from topo.model.rest.document import Document, one_of

PlacementMode = Annotated[str, one_of("required", "preferred")]
"""Whether a group of pods might be split where it did not fit whole."""


class DomainDocument(Document):
    """A group of the tree; `path` ends with its own name."""

    kind: str
    name: str
    path: tuple[str, ...]


class PodsDocument(Document):
    """So many pods on this node."""

    name: str
    pods: int


class PodGroupDocument(Document):
    """One group of pods, nodes in rank order; more than one domain: it is split."""

    index: int
    tail: bool = False
    domains: tuple[DomainDocument, ...]
    nodes: tuple[PodsDocument, ...]
