"""Every condition code there is, by its code, and where the documentation describes it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from topo.model.conditions.condition import Condition
from topo.model.conditions.doctor import ClusterCondition, ServiceCondition
from topo.model.conditions.master import GangCondition, MasterCondition
from topo.model.conditions.sources import ReportCondition, SourceCondition
from topo.model.conditions.tree import ConflictCondition, GroupCondition, NodeCondition

PAGE = "docs/operations.md"
"""The page of the documentation that has every table."""


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one kind of subject; `section` of the page lists them under this `head`."""

    subject: str
    rows: type[Condition]
    section: str
    head: tuple[str, str, str] = ("condition", "cause", "next step")


TABLES = (
    Table("node", NodeCondition, "node-conditions"),
    Table("group", GroupCondition, "group-conditions"),
    Table("nodes or machines", ConflictCondition, "conflicts"),
    Table("workers", ReportCondition, "refused-reports"),
    Table("source", SourceCondition, "source-conditions"),
    Table("master", MasterCondition, "warnings"),
    Table("gangs", GangCondition, "gang-warnings", ("warning", "gangs that …", "next step")),
    Table("service", ServiceCondition, "service-findings"),
    Table("cluster", ClusterCondition, "cluster-findings"),
)


def by_code(tables: Iterable[Table]) -> Mapping[str, Condition]:
    """Return the rows of these tables by their codes."""
    return MappingProxyType({row.value: row for table in tables for row in table.rows})


CONDITIONS = by_code(TABLES)
"""Every row by its code. A document of a later release may have codes that are not here."""


def publish_codes(schema: dict[str, object]) -> None:
    """Put all codes into the schema of a text; a reader takes those of a later release, too."""
    schema["enum"] = list(CONDITIONS)
