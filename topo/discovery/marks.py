"""What the events since the last generation touched: the work that is left before publishing."""

from dataclasses import dataclass, field

from topo.model.ids import NodeName


@dataclass(slots=True)
class Marks:
    """`moved`: nodes whose place may differ. `judged`: nodes of which only the value may differ.

    `machines`: the manager's machines, or who they are, may differ.
    """

    moved: set[NodeName] = field(default_factory=set)
    judged: set[NodeName] = field(default_factory=set)
    machines: bool = False
