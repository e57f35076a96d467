"""The nodes to place or judge again before the next generation is published."""

from dataclasses import dataclass, field

from topo.model.ids import NodeName


@dataclass(slots=True)
class Marks:
    """What the events since the last generation touched: the work left before publishing.

    `moved`: nodes whose place may differ. `judged`: nodes of which only the status may differ.
    """

    moved: set[NodeName] = field(default_factory=set)
    judged: set[NodeName] = field(default_factory=set)
