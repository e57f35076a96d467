"""What a recount found to be kept wrongly."""

from dataclasses import dataclass

from topo.model.ids import NodeName


@dataclass(frozen=True, slots=True)
class Difference:
    """A node whose free GPUs (or its tier-1 group's free slots) were kept wrongly."""

    node: NodeName
    counted: int
    kept: int
