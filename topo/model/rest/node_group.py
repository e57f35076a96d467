"""`GET /node_group`: the vendor's document, which has these keys and no others."""

from typing import Literal

from topo.model.forest import Status
from topo.model.rest.document import Document


class VendorNode(Document):
    """A leaf of the vendor's document."""

    name: str
    kind: Literal["node"]
    status: Status


class VendorGroup(Document):
    """A group of the vendor's document."""

    name: str
    kind: str
    child: "tuple[VendorGroup | VendorNode, ...]"
    status: Status
