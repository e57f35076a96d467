"""Prometheus metrics, created from the rows of `metrics.toml`."""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from importlib.resources import files
from typing import Any, Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from topo.model.errors import BrokenInvariantError

Kind = Literal["counter", "gauge", "histogram"]
_Label = TypeVar("_Label", bound=Enum)
_Family = TypeVar("_Family", GaugeMetricFamily, CounterMetricFamily)
Values = float | Mapping[Any, float]
"""One value, or a value per label or per tuple of labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """One metric; `metrics.toml` explains the fields."""

    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    when: str = ""
    notes: str = ""


def _read_table() -> dict[str, MetricRow]:
    rows = tomllib.loads(files(__package__).joinpath("metrics.toml").read_text("utf-8"))
    for row in rows.values():
        row.update({each: tuple(row.get(each, ())) for each in ("labels", "buckets")})
    return {name: MetricRow(**row) for name, row in rows.items()}


METRICS = _read_table()
"""The rows by name, in the order of the documentation."""


def counter(registry: CollectorRegistry, name: str, starts: Iterable[Any] = ()) -> Counter:
    """Return the counter `name`. `starts` are labels, or tuples of labels, that begin at 0.

    Prometheus needs the zero to compute a rate for the first event.
    """
    row = _row(name, "counter")
    made = Counter(name, row.help, row.labels, registry=registry)
    for labels in starts:
        made.labels(*_tuple(labels))
    return made


def gauge(registry: CollectorRegistry, name: str, read: Callable[[], float] | None = None) -> Gauge:
    """Return the gauge `name`; `read` returns its value at each scrape."""
    row = _row(name, "gauge")
    made = Gauge(name, row.help, row.labels, registry=registry)
    if read is not None:
        made.set_function(read)
    return made


def read_each(
    made: Gauge, labels: Iterable[_Label], read: Callable[[], Mapping[_Label, float]]
) -> None:
    """Read each label of a gauge at each scrape; 0 if `read` lacks the label."""
    for label in labels:
        made.labels(label.value).set_function(partial(_value_of, label, read))


def _value_of(label: _Label, read: Callable[[], Mapping[_Label, float]]) -> float:
    return read().get(label, 0)


def histogram(registry: CollectorRegistry, name: str) -> Histogram:
    """Return the histogram `name`."""
    row = _row(name, "histogram")
    return Histogram(name, row.help, row.labels, buckets=row.buckets, registry=registry)


def gauge_family(name: str, values: Values) -> GaugeMetricFamily:
    """Return the samples of the gauge `name` at one scrape."""
    row = _row(name, "gauge")
    return _filled(GaugeMetricFamily(name, row.help, labels=row.labels), values)


def counter_family(name: str, values: Values) -> CounterMetricFamily:
    """Return the samples of the counter `name` at one scrape."""
    row = _row(name, "counter")
    return _filled(CounterMetricFamily(name, row.help, labels=row.labels), values)


def _filled(family: _Family, values: Values) -> _Family:
    for labels, value in values.items() if isinstance(values, Mapping) else (((), values),):
        family.add_metric(_tuple(labels), value)
    return family


def _row(name: str, kind: Kind) -> MetricRow:
    row = METRICS[name]
    if row.kind != kind:
        raise BrokenInvariantError(f"{name} is a {row.kind} in metrics.toml, not a {kind}")
    return row


def _tuple(labels: Any) -> tuple[Any, ...]:
    return labels if isinstance(labels, tuple) else (labels,)
