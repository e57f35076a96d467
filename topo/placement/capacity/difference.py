"""A difference that a recount found."""

from dataclasses import dataclass

from topo.model.ids import NodeName


@dataclass(frozen=True, slots=True)
class Difference:
    """A node whose free GPUs, or whose tier-1 domain's free slots, were wrong."""

    node: NodeName
    counted: int
    kept: int
