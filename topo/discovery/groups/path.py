"""Where a node belongs: the groups from the outermost to its own."""

from typing import NamedTuple

from topo.model.forest import Reason
from topo.model.ids import GroupName, Kind, SourceName


class PathGroup(NamedTuple):
    """One group on a node's path. `key` is its identity below its parent, `name` what people read.

    `expected` is the number of nodes that make the group complete, `exact` whether more is a fault.
    `troubles` are reasons of the group's own. `generated`: the name is made here, see `naming`.
    """

    kind: Kind
    key: str
    name: GroupName
    source: SourceName
    expected: int | None = None
    exact: bool = False
    troubles: tuple[Reason, ...] = ()
    generated: bool = False


Path = tuple[PathGroup, ...]
