"""The controller of gangs, put together from its parts."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import prometheus_client as prom

from master.booking.ahead import AheadBudget
from master.booking.placements import Placements
from master.controllers.leaving_gangs import LeavingGangs
from master.controllers.nomination.ahead import GangsAhead
from master.controllers.nomination.capacity_delta import CapacityDelta
from master.controllers.nomination.cluster_changes import ClusterChanges
from master.controllers.nomination.controller import Nomination, StatusParts
from master.controllers.nomination.debounce import Debounce
from master.controllers.nomination.ended_pods import EndedPods
from master.controllers.nomination.gang_jobs import GangJobs
from master.controllers.nomination.gang_reader import GangReader
from master.controllers.nomination.gangs.context import GangContext
from master.controllers.nomination.index import GangIndex
from master.controllers.nomination.kin_pods import KinPods
from master.controllers.nomination.metrics import NominationMetrics
from master.controllers.nomination.native import NativeGangs
from master.controllers.nomination.placement_answers import Links, PlacementAnswers
from master.controllers.nomination.queues.usage import QueueCounts, QueuePlugin
from master.controllers.nomination.sources import Sources
from master.controllers.nomination.status.advice import smallest_change
from master.controllers.nomination.status.bypassed_webhook import BypassedWebhook
from master.controllers.nomination.status.exhausted_quota import exhausted_quota
from master.controllers.nomination.status.native_policy import LabelledNodes, NativePolicy
from master.controllers.nomination.status.nomination_policy import NominationPolicy
from master.controllers.nomination.status.note_doubts import NoteDoubts
from master.controllers.nomination.status.pod_events import PodEvents
from master.controllers.nomination.status.policy import GangPolicy
from master.controllers.nomination.status.startup import StartupPolicy
from master.controllers.nomination.status.status_store import StatusStore
from master.controllers.nomination.status.status_writer import StatusWriter
from master.controllers.nomination.writing.inflight import InflightWrites
from master.controllers.nomination.writing.instruction_writer import InstructionWriter
from master.controllers.nomination.writing.node_labels import NodeLabels
from master.kube.objects import Key, KubeObject
from master.kube.schedulers.volcano_config import NOT_READ, Configured
from master.kube.store import Store
from master.kube.writing.writer import Writer
from master.object_errors import ObjectErrors
from master.sources.kubernetes.plan_proof import PlanProof
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.machine.gang import GangId
from topo.gangs.machine.gangs import Gangs
from topo.gangs.machine.settings import GangSettings
from topo.gangs.status import GangStatus
from topo.kit.metrics import counter
from topo.model.cluster import HYBRID
from topo.model.ids import Kind, NodeName
from topo.placement.gpus.node_worth import node_worth
from topo.publish import gpu_annotations
from topo.publish.event_series import Reporter

T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True, slots=True, kw_only=True)
class NominationConfig:
    """What the controller of gangs is built from.

    `is_counted`: the groups and what is free in the cluster are known; `uncounted`: what of it is
    not, in words. `label_keys`: the label of each kind of group. `volcano`: how Volcano's scheduler
    is configured. `now` is Unix time; `server_now` is the same by the clock of the API servers,
    which date the pods. `ahead`: what namespaces may keep for pods that are not there yet. `held`:
    jobs that have no pods yet. `errors`: the objects set aside.
    """

    sources: Sources
    writer: Writer
    placements: Placements
    ahead: AheadBudget
    leaving: LeavingGangs
    is_counted: Callable[[], bool]
    domain: str
    settings: GangSettings
    max_hold_s: float
    label_keys: Mapping[Kind, str]
    reporter: Reporter
    registry: prom.CollectorRegistry
    uncounted: Callable[[], Sequence[str]] = tuple
    volcano: Configured = NOT_READ
    queue_plugin: QueuePlugin = QueuePlugin.PROPORTION
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    server_now: Callable[[], float] = time.time
    held: tuple[GangPolicy, ...] = ()
    errors: ObjectErrors = field(default_factory=ObjectErrors)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The parts from which gangs are read. `ungated`: why a person wants the gates opened."""

    index: GangIndex
    native: NativeGangs
    answers: PlacementAnswers
    queues: QueueCounts
    ungated: dict[GangId, str]
    context: GangContext
    reader: GangReader
    ahead: GangsAhead


def build_nomination(config: NominationConfig) -> Nomination:
    """Return the controller, which follows its sources from here on."""
    clock, reading, machine = config.clock, _reading(config), Gangs(config.settings)
    debounce, status = Debounce(clock), _status(config, reading, machine)
    metrics = _metrics(config, reading, status)
    writes = _instruction_writer(config, reading, metrics, debounce.wake)
    changes = ClusterChanges(
        sources=config.sources,
        index=reading.index,
        native=reading.native,
        reader=reading.reader,
        queues=reading.queues,
        inflight=writes.inflight,
        labels=writes.labels,
        debounce=debounce,
        leaving=config.leaving,
        ahead=reading.ahead,
    )
    config.placements.state.room.on_tight = debounce.wake
    capacity = CapacityDelta(config.placements.state)
    config.sources.devices.on_classes.append(capacity.note_growth)
    proof = PlanProof(config.sources.nodes, config.placements.state)
    kin_pods = KinPods(config.sources.pods, proof.borne_out)
    kin_pods.on_gone += [capacity.note_growth, debounce.wake]
    reading.answers.occupied = kin_pods.occupied
    config.placements.planner.adviser.owned = reading.reader.jobs_of_owners
    return Nomination(
        machine=machine,
        changes=changes,
        reader=reading.reader,
        answers=reading.answers,
        capacity=capacity,
        writes=writes,
        status=status,
        metrics=metrics,
        is_counted=config.is_counted,
        ahead_s=lambda: config.server_now() - clock(),
        ungated=reading.ungated,
        errors=config.errors,
        held=config.held,
        clock=clock,
        now=config.now,
    )


def _reading(config: NominationConfig) -> _Reading:
    sources, state = config.sources, config.placements.state
    keys, ungated = AnnotationKeys(config.domain), dict[GangId, str]()
    index, native = GangIndex(keys), NativeGangs()
    answers = PlacementAnswers(state, config.max_hold_s, sources.reservations, _links(config))
    ended = EndedPods(sources.pods, sources.ended_pods, index.mark_known, native.mark_known)
    jobs = GangJobs(sources.jobs, index.mark_known, native.mark_known)
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
        scheduling_groups=lambda: _listed(sources.scheduling_groups),
        composite_groups=lambda: _listed(sources.composite_groups),
        kind_of_tier=answers.kind_of_tier,
        tier_of_kind=answers.tier_of_kind,
        kind_of_label={label: kind for kind, label in config.label_keys.items()}.get,
        labelled=index.labelled,
        holds=answers.holds_of,
        devices=sources.devices.asked,
        volume_nodes=sources.volumes.nodes,
        missing_volume=sources.volumes.missing,
        ended=ended.of,
        job_ranks=jobs.ranks,
        clock=config.clock,
        ungated=ungated,
        reservation=sources.reservations.find if sources.reservations is not None else None,
        ahead_s=config.server_now() - config.clock(),
    )
    reader = GangReader(sources, index, native, context)
    answers.known = reader.known
    ahead = GangsAhead(
        config.ahead, pods_of=reader.pods, any_pod=reader.any_pod, holds_of=answers.holds_of
    )
    answers.excess = ahead.excess
    context.beyond_budget, context.booked_until_s = ahead.beyond_budget, ahead.booked_until_s
    return _Reading(
        index=index,
        native=native,
        answers=answers,
        queues=queues,
        ungated=ungated,
        context=context,
        reader=reader,
        ahead=ahead,
    )


def _links(config: NominationConfig) -> Links:
    """Return what returns the worth of a node by the annotations that it has now."""
    of_scores, of_losses, _ = gpu_annotations.keys(config.domain)
    nodes = config.sources.nodes

    def worth(name: NodeName, gpus: int) -> float:
        found = nodes.objects.get(("", name))
        stated = found.metadata.annotations if found is not None else {}
        scores, losses = stated.get(of_scores, ""), stated.get(of_losses, "")
        return node_worth(scores, losses, gpus, config.volcano.link_weights)

    return worth


def _listed(groups: Store[T]) -> Mapping[Key, T] | None:
    return groups.objects if groups.synced else None


def _status(config: NominationConfig, reading: _Reading, machine: Gangs) -> StatusParts:
    pod_events = PodEvents(config.reporter, reading.reader.gated_pods)
    condition = reading.context.keys.condition
    writer = StatusWriter(
        config.writer, config.reporter, condition, pod_events, pods=reading.reader.shown_pods
    )
    store = _status_store(config, reading.reader, writer)
    return StatusParts(
        store=store,
        writer=writer,
        bypassed_webhook=BypassedWebhook(
            index=reading.index,
            native=reading.native,
            pod_groups=config.sources.pod_groups,
            writer=writer,
            volcano=config.volcano,
        ),
        startup=StartupPolicy(
            gangs=reading.reader.build_all,
            ungated=reading.ungated,
            why=config.uncounted,
            store=store,
            flush=lambda: writer.flush(config.now()),
            clock=config.clock,
        ),
        nomination=NominationPolicy(
            machine=machine,
            known=reading.reader.known,
            evicts_nobody=lambda: config.volcano.evicts_nobody,
            preempts=config.settings.preempt_s is not None,
            quota=lambda gang: (
                reading.ahead.why(gang.id)
                or exhausted_quota(
                    gang,
                    config.placements.state.policy.gpu_resources,
                    config.sources.quotas.objects.values(),
                )
            ),
        ),
        native=NativePolicy(
            gangs=reading.native,
            context=reading.context,
            capacity=lambda: config.placements.state.capacity,
            unheeded=lambda: config.volcano.unheeded,
            store=store,
            labelled=LabelledNodes(reading.context),
            errors=config.errors,
        ),
        note_doubts=NoteDoubts(
            writer=writer,
            pods=reading.reader.pods_by_uid,
            ignored=counter(config.registry, "topo_master_gang_notes_ignored"),
            now=config.now,
        ),
    )


def _metrics(config: NominationConfig, reading: _Reading, status: StatusParts) -> NominationMetrics:
    return NominationMetrics(
        config.registry,
        status.store.by_state,
        status.store.longest_s,
        slipped=lambda: len(status.bypassed_webhook.pods()),
        native=lambda: len(reading.native),
    )


def _instruction_writer(
    config: NominationConfig,
    reading: _Reading,
    metrics: NominationMetrics,
    wake: Callable[[], None],
) -> InstructionWriter:
    index, keys, placed = reading.index, reading.context.keys, config.placements.state

    def is_hybrid(node: NodeName) -> bool:
        host = placed.capacity.host(node)
        return host is not None and host.pool == HYBRID

    return InstructionWriter(
        sources=config.sources,
        writer=config.writer,
        keys=keys,
        reader=reading.reader,
        index=index,
        inflight=InflightWrites(config.clock),
        labels=NodeLabels(index, config.sources.nodes, config.writer, keys),
        metrics=metrics,
        is_hybrid=is_hybrid,
        wake=wake,
        clock=config.clock,
    )


def _status_store(
    config: NominationConfig, reader: GangReader, writer: StatusWriter
) -> StatusStore:
    planner = config.placements.planner

    def write(gang_id: GangId, status: GangStatus) -> None:
        if (first := reader.first_pod(gang_id)) is not None:
            writer.write(first, status, since_s(status), config.now())

    def since_s(status: GangStatus) -> float:
        return config.now() - (config.clock() - status.since_s)

    return StatusStore(
        advise=lambda gang, text: smallest_change(gang, text, planner, config.clock),
        write=write,
        compare=lambda gang_id, status: writer.compare(gang_id, status, since_s(status)),
        recall=reader.reported,
        clock=config.clock,
        now=config.now,
        errors=config.errors,
    )
