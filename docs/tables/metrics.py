"""The tables of metrics: one per program and condition, a row per metric."""

from docs.tables.section import table
from topo.kit.metrics import METRICS, MetricRow


def render(program: str, when: str = "") -> str:
    """Return the metrics of a program as Markdown: those that need `when`, or nothing."""
    rows = (
        (f"`{_scraped_name(name, row)}`", row.kind, _labels(row), _meaning(row))
        for name, row in METRICS.items()
        if name.startswith(f"topo_{program}_") and row.when == when
    )
    return table(("metric", "type", "labels", "meaning"), rows)


def _scraped_name(name: str, row: MetricRow) -> str:
    return name + "_total" * (row.kind == "counter")


def _labels(row: MetricRow) -> str:
    return ", ".join(f"`{label}`" for label in row.labels)


def _meaning(row: MetricRow) -> str:
    return ". ".join(filter(None, (row.help.rstrip("."), row.notes)))
