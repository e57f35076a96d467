"""`GET /node_group`: the vendor's document, which has these keys and no others."""

from typing import Literal

from typing_extensions import TypedDict

from topo.model.forest import Status


class VendorNode(TypedDict):
    """A leaf of the vendor's document."""

    name: str
    kind: Literal["node"]
    status: Status


class VendorGroup(TypedDict):
    """A group of the vendor's document."""

    name: str
    kind: str
    child: "list[VendorGroup | VendorNode]"
    status: Status
