"""The controller of gangs, put together from its parts."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import prometheus_client as prom

from master.booking.placements import Placements
from master.controllers.nomination.capacity_delta import CapacityDelta
from master.controllers.nomination.cluster_changes import ClusterChanges
from master.controllers.nomination.controller import Nomination, StatusParts
from master.controllers.nomination.debounce import Debounce
from master.controllers.nomination.gang_builder import GangContext
from master.controllers.nomination.gang_reader import GangReader
from master.controllers.nomination.index import GangIndex
from master.controllers.nomination.metrics import NominationMetrics
from master.controllers.nomination.native import NativeGangs
from master.controllers.nomination.placement_answers import PlacementAnswers
from master.controllers.nomination.queues.usage import QueueCounts, QueuePlugin
from master.controllers.nomination.sources import Sources
from master.controllers.nomination.status.advice import smallest_change
from master.controllers.nomination.status.bypassed_webhook import BypassedWebhook
from master.controllers.nomination.status.native_policy import NativePolicy
from master.controllers.nomination.status.nomination_policy import NominationPolicy
from master.controllers.nomination.status.startup import StartupPolicy
from master.controllers.nomination.status.status_store import StatusStore
from master.controllers.nomination.status.status_writer import StatusWriter
from master.controllers.nomination.writing.inflight import InflightWrites
from master.controllers.nomination.writing.instruction_writer import InstructionWriter
from master.controllers.nomination.writing.node_labels import NodeLabels
from master.kube.volcano_config import NOT_READ, Configured
from master.kube.writing.writer import Writer
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.machine.gang import GangId
from topo.gangs.machine.gangs import Gangs
from topo.gangs.machine.settings import GangSettings
from topo.gangs.status import GangStatus
from topo.publish.event_series import Reporter


@dataclass(frozen=True, slots=True, kw_only=True)
class NominationConfig:
    """What the controller of gangs is built from.

    `is_counted`: the groups and what is free in the cluster are known; `uncounted`: what of it is
    not, in words. `volcano`: how Volcano's scheduler is configured. `now` is Unix time;
    `server_now` is the same by the clock of the API servers, which date the pods.
    """

    sources: Sources
    writer: Writer
    placements: Placements
    is_counted: Callable[[], bool]
    domain: str
    settings: GangSettings
    max_hold_s: float
    reporter: Reporter
    registry: prom.CollectorRegistry
    uncounted: Callable[[], Sequence[str]] = tuple
    volcano: Configured = NOT_READ
    queue_plugin: QueuePlugin = QueuePlugin.PROPORTION
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    server_now: Callable[[], float] = time.time


def build_nomination(config: NominationConfig) -> Nomination:
    """Return the controller, which follows its sources from here on."""
    sources, clock, state = config.sources, config.clock, config.placements.state
    keys, ungated = AnnotationKeys(config.domain), dict[GangId, str]()
    index, native = GangIndex(keys), NativeGangs()
    answers = PlacementAnswers(state, config.max_hold_s)
    queues = QueueCounts(
        sources.queues,
        sources.pod_groups,
        lambda: state.capacity.gpus,
        weighted=config.queue_plugin is QueuePlugin.PROPORTION,
    )
    context = GangContext(
        keys=keys,
        nodes=lambda: sources.nodes.objects.values(),  # noqa: PLW0108 - a list replaces it
        pod_groups=lambda: sources.pod_groups.objects,
        missing_quota=queues.missing,
        kind_of_tier=answers.kind_of_tier,
        labelled=index.labelled,
        holds=answers.holds_of,
        ungated=ungated,
        ahead_s=config.server_now() - clock(),
    )
    reader = GangReader(sources, index, native, context)
    status_writer = StatusWriter(config.writer, config.reporter, keys.condition)
    statuses = _status_store(config, reader, status_writer)
    bypassed = BypassedWebhook(
        index=index,
        native=native,
        pod_groups=sources.pod_groups,
        writer=status_writer,
        volcano=config.volcano,
    )
    metrics = NominationMetrics(
        config.registry,
        statuses.by_state,
        statuses.longest_s,
        slipped=lambda: len(bypassed.pods()),
        native=lambda: len(native),
    )
    debounce, inflight = Debounce(clock), InflightWrites(clock)
    labels = NodeLabels(index, sources.nodes, config.writer, keys)
    writes = InstructionWriter(
        sources=sources,
        writer=config.writer,
        keys=keys,
        reader=reader,
        index=index,
        inflight=inflight,
        labels=labels,
        metrics=metrics,
        wake=debounce.wake,
        clock=clock,
    )
    changes = ClusterChanges(
        sources=sources,
        index=index,
        native=native,
        reader=reader,
        queues=queues,
        inflight=inflight,
        labels=labels,
        debounce=debounce,
    )
    machine = Gangs(config.settings)
    status = StatusParts(
        store=statuses,
        writer=status_writer,
        bypassed_webhook=bypassed,
        startup=StartupPolicy(
            gangs=reader.build_all,
            ungated=ungated,
            why=config.uncounted,
            store=statuses,
            write=writes.write_pods,
            flush=lambda: status_writer.flush(config.now()),
            clock=clock,
        ),
        nomination=NominationPolicy(
            machine=machine,
            known=reader.known,
            evicts_nobody=lambda: config.volcano.evicts_nobody,
            preempts=config.settings.preempt_s is not None,
        ),
        native=NativePolicy(
            gangs=native,
            context=context,
            capacity=lambda: state.capacity,
            unheeded=lambda: config.volcano.unheeded,
            store=statuses,
        ),
    )
    return Nomination(
        machine=machine,
        changes=changes,
        reader=reader,
        answers=answers,
        capacity=CapacityDelta(state),
        writes=writes,
        status=status,
        metrics=metrics,
        is_counted=config.is_counted,
        ahead_s=lambda: config.server_now() - clock(),
        ungated=ungated,
        clock=clock,
        now=config.now,
    )


def _status_store(
    config: NominationConfig, reader: GangReader, writer: StatusWriter
) -> StatusStore:
    planner = config.placements.planner

    def write(gang_id: GangId, status: GangStatus) -> None:
        if (first := reader.first_pod(gang_id)) is not None:
            now_s = config.now()
            since_s = now_s - (config.clock() - status.since_s)
            writer.write(first, status, since_s, now_s)

    return StatusStore(
        advise=lambda gang, text: smallest_change(gang, text, planner, config.clock),
        write=write,
        recall=reader.reported,
        clock=config.clock,
        now=config.now,
    )
