"""Every condition code there is, by its code, and where the documentation describes it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from topo.model.conditions.condition import Condition
from topo.model.conditions.doctor import ClusterCondition, ServiceCondition
from topo.model.conditions.master import GangCondition, MasterCondition
from topo.model.conditions.sources import ReportCondition, SourceCondition
from topo.model.conditions.tree import ConflictCondition, GroupCondition, NodeCondition


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one kind of subject; `page` and `section` of the documentation list them."""

    subject: str
    rows: type[Condition]
    section: str
    page: str = "docs/operations.md"


TABLES = (
    Table("node", NodeCondition, "node-conditions"),
    Table("group", GroupCondition, "group-conditions"),
    Table("nodes or machines", ConflictCondition, "conflicts"),
    Table("workers", ReportCondition, "refused-reports"),
    Table("source", SourceCondition, "source-conditions"),
    Table("master", MasterCondition, "warnings"),
    Table("gangs", GangCondition, "gang-warnings"),
    Table("service", ServiceCondition, "service-findings"),
    Table("cluster", ClusterCondition, "cluster-findings"),
)


def catalogue() -> Iterator[Condition]:
    """Return every row, table by table."""
    return (row for table in TABLES for row in table.rows)


CONDITIONS: Mapping[str, Condition] = MappingProxyType({row.value: row for row in catalogue()})
"""Every row by its code. A document of a later release may have codes that are not here."""
