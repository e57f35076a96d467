"""What a dashboard is, before Grafana: sections of panels that ask Prometheus."""

from dataclasses import dataclass
from enum import StrEnum

MASTERS = 'job=~"$job"'
"""The masters that are looked at; they tell the same of a cluster: most panels take the highest."""
WORKER = 'node=~"$node"'
"""The worker of the chosen node: `node` is put on its series by the ServiceMonitor."""


class Look(StrEnum):
    """How a panel shows its numbers."""

    NUMBER = "number"
    LINES = "lines"
    STACK = "stack"


class Unit(StrEnum):
    """Units of Grafana."""

    COUNT = "short"
    SECONDS = "s"
    BYTES = "bytes"
    SHARE = "percentunit"
    PER_SECOND = "cps"
    YES = "bool_yes_no"
    CORES = "none"


@dataclass(frozen=True, slots=True)
class Query:
    """An expression of PromQL, and what its lines are called in the legend."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """`means` is one sentence; `bad_from`: red from there on, and green below."""

    title: str
    means: str
    queries: tuple[Query, ...]
    look: Look = Look.LINES
    unit: Unit = Unit.COUNT
    width: int = 8
    bad_from: float | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """Panels under one heading. `in_kubernetes`: outside of a cluster there is nothing to show."""

    title: str
    panels: tuple[Panel, ...]
    in_kubernetes: bool = False


@dataclass(frozen=True, slots=True)
class Board:
    """`name` is that of the file, and of the dashboard in links."""

    name: str
    title: str
    means: str
    sections: tuple[Section, ...]
    of_a_node: bool = False


def masters(metric: str, more: str = "") -> str:
    """Return the series of a metric of the chosen masters."""
    return f"topo_master_{metric}{{{MASTERS}{',' if more else ''}{more}}}"


def most(metric: str, by: str = "", more: str = "") -> str:
    """Return the highest that the masters tell, for each value of the label."""
    return f"max by ({by}) ({masters(metric, more)})" if by else f"max({masters(metric, more)})"


def total(metric: str, by: str, more: str = "") -> str:
    """Return the sum over the values of a label of what the masters tell; 0 where there is none
    yet.
    """
    return f"sum({most(metric, by, more)}) or 0 * {most('ready')}"


def rate(counter: str, by: str, more: str = "") -> str:
    """Return how often a second, over all masters."""
    return f"sum by ({by}) (rate({masters(counter, more)}[$__rate_interval]))"


def happened(counter: str, by: str, more: str = "") -> str:
    """Return how often within the interval that a point of the line stands for."""
    return f"sum by ({by}) (increase({masters(counter, more)}[$__rate_interval]))"


def quantiles(histogram: str) -> tuple[Query, ...]:
    """Return median and 99th percentile of a histogram of the masters."""
    buckets = f"sum by (le) (rate({masters(f'{histogram}_bucket')}[$__rate_interval]))"
    return tuple(
        Query(f"histogram_quantile({share}, {buckets})", name)
        for share, name in ((0.5, "half of them within"), (0.99, "99 of 100 within"))
    )


def number(
    title: str,
    means: str,
    expr: str,
    *,
    bad_from: float | None = None,
    unit: Unit = Unit.COUNT,
    width: int = 4,
    legend: str = "",
) -> Panel:
    """Return one number, or a few."""
    return Panel(
        title=title,
        means=means,
        queries=(Query(expr, legend),),
        look=Look.NUMBER,
        unit=unit,
        width=width,
        bad_from=bad_from,
    )


def told(
    title: str, means: str, metric: str, by: str, *, unit: Unit = Unit.COUNT, width: int = 8
) -> Panel:
    """Return a line for each value of the labels: what the masters tell."""
    return _each(title, means, Query(most(metric, by), _legend(by)), unit=unit, width=width)


def rates(title: str, means: str, counter: str, by: str) -> Panel:
    """Return a line for each value of the labels: how often a second."""
    query = Query(rate(counter, by), _legend(by))
    return _each(title, means, query, unit=Unit.PER_SECOND, width=8)


def counted(title: str, means: str, counter: str, by: str, *, width: int = 8) -> Panel:
    """Return a line for each value of the labels: how often within the interval of a point."""
    query = Query(happened(counter, by), _legend(by))
    return _each(title, means, query, unit=Unit.COUNT, width=width)


def _legend(by: str) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in by.split(", "))


def _each(title: str, means: str, query: Query, *, unit: Unit, width: int) -> Panel:
    return Panel(title=title, means=means, queries=(query,), unit=unit, width=width)
