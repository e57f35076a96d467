"""A row of the table of sources: what the source states, and how it is started."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import prometheus_client as prom

from master.settings import MasterSettings
from master.sources.polled import PolledFabric
from master.sources.workers.sweeps import Sweeps
from master.tree.engine import Clock, EventSink
from topo.discovery.sources import Source
from topo.kit.tasks import Work


@dataclass(frozen=True, slots=True)
class SourceContext:
    """The parts of a master that a source may use."""

    settings: MasterSettings
    sink: EventSink
    registry: prom.CollectorRegistry
    sweeps: Sweeps
    clock: Clock = time.monotonic
    polled: PolledFabric = field(default_factory=PolledFabric)


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A source and the function that starts it, None where the source calls the master.

    `start` raises `BadInputError` for settings that cannot be used. `also`: whether it is started
    where the mode does not use it, for another source.
    """

    source: Source
    start: Callable[[SourceContext], Work] | None = None
    also: Callable[[MasterSettings], bool] = lambda _: False
