"""The source that polls a cluster manager, follows its events, and keeps the last good answer.

Where the mapping file has a section `fabric`, that answer is polled, too, and handed to the source
of dumps (`PolledFabric`): its age, what is wrong with it and when it counts are said there.

Full answers are read every `poll_topology_s`, events in between every `poll_events_s`. Nothing of a
faulty answer is used: discovery receives `SourceFailed` and keeps what it has, and the next poll
follows after a wait with full jitter. Discovery receives changes, and after a full answer without
changes a confirmation.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeVar

import prometheus_client as prom
import structlog
from tenacity import AsyncRetrying, retry_if_exception_type, stop_before_delay, stop_never
from tenacity.stop import stop_base

from master.settings import MasterSettings
from master.settings.cluster_manager import ClusterManagerSettings, base_url
from master.sources.cluster_manager.client import ManagerClient
from master.sources.cluster_manager.http import (
    Transport,
    TroubleError,
    TroubleKind,
    open_session,
    tls_context,
)
from master.sources.cluster_manager.mapping import load_mapping
from master.sources.cluster_manager.metrics import ClusterManagerMetrics
from master.sources.polled import PolledFabric
from master.sources.row import SourceContext, SourceRow
from master.tree.engine import EventSink
from topo.discovery.manager.events import apply_events
from topo.discovery.manager.rules import FabricRule, TopologyRule
from topo.discovery.sources import MANAGED
from topo.kit.backoff import full_jitter, requested_wait_s, retry_after_or
from topo.kit.hiding import mask_secrets
from topo.kit.tasks import Work
from topo.model.errors import BadInputError, Refusal
from topo.model.observation import (
    CLUSTER_MANAGER,
    ManagedTopology,
    ManagerReported,
    SourceFailed,
    SourceRecovered,
)

MAX_PAGES = 100
"""Pages of events in a row; with more the whole topology is read."""
MOST_REST_S = 600.0
_REST_FACTOR = 20
"""Answers with the fabric of thousands of hosts are read a twentieth of the time at most."""

_log = structlog.get_logger(__name__)
T = TypeVar("T")


class _Poll(StrEnum):
    TOPOLOGY = "topology"
    EVENTS = "events"
    FABRIC = "fabric"


class ClusterManager:
    """Polls one cluster manager and submits its answers.

    Raises `BadInputError` for an unusable address, CA file or mapping file; the credentials may
    come later.
    """

    def __init__(
        self,
        settings: ClusterManagerSettings,
        sink: EventSink,
        registry: prom.CollectorRegistry,
        clock: Callable[[], float] = time.monotonic,
        *,
        has_groups: bool = True,
        polled: PolledFabric | None = None,
    ) -> None:
        self._settings = settings
        self._sink = sink
        self._clock = clock
        self._metrics = ClusterManagerMetrics(registry, clock)
        self._mapping = mapping = load_mapping(settings.mapping_file)
        self._rule = mapping.topology if has_groups else None
        self._fabric_rule = mapping.fabric if polled is not None else None
        self._polled = polled or PolledFabric()
        if (has_groups and self._rule is None) or (self._rule or self._fabric_rule) is None:
            raise BadInputError(
                _unused(settings.mapping_file, "topology" if has_groups else "fabric")
            )
        host = base_url(settings).host
        if self._fabric_rule is not None:
            self._polled.name = f"{host} {self._fabric_rule.path}"
        tls_context(settings)
        self._topology: ManagedTopology | None = None
        self._cursor: str | None = None
        self._events_at_s = 0.0
        self._troubles: dict[_Poll, TroubleError] = {}
        self._sent_topology: ManagedTopology | None = None
        self._sent_failing: TroubleKind | None = None
        self._last_gap: str | None = None
        # Where it is asked often, it is missed soon: no wait is longer than two polls.
        ceiling_s = min(settings.backoff_ceiling_s, 2 * settings.poll_topology_s)
        self._wait = retry_after_or(full_jitter(settings.backoff_base_s, ceiling_s))

    async def run(self) -> None:
        """Poll until cancelled."""
        async with open_session() as http, asyncio.TaskGroup() as group:
            transport = Transport(self._settings, http)
            client = ManagerClient(
                self._mapping, self._settings, transport, self._metrics, clock=self._clock
            )
            if self._rule is not None:
                group.create_task(self._follow_topology(client, self._rule))
            if self._fabric_rule is not None:
                group.create_task(self._follow_fabric(client, self._fabric_rule))

    async def _follow_topology(self, client: ManagerClient, rule: TopologyRule) -> None:
        read = partial(self._read_topology, rule)
        while True:
            await self._until_good(client, _Poll.TOPOLOGY, read, stop_never)
            await self._follow_events(client, self._clock() + self._settings.poll_topology_s)

    async def _follow_fabric(self, client: ManagerClient, rule: FabricRule) -> None:
        read = partial(self._read_fabric, rule)
        while True:
            took_s = await self._until_good(client, _Poll.FABRIC, read, stop_never)
            rest_s = max(self._settings.poll_topology_s, _REST_FACTOR * took_s)
            await asyncio.sleep(min(rest_s, MOST_REST_S))

    async def _follow_events(self, client: ManagerClient, until_s: float) -> None:
        """Poll events until the next full answer is due, or needed sooner.

        Failing events, whatever wait the manager asks for, delay no full answer.
        """
        while (left_s := until_s - self._clock()) > 0:
            await asyncio.sleep(min(left_s, self._settings.poll_events_s))
            self._send()
            now_s = self._clock()
            if self._cursor is None or now_s < self._events_at_s or now_s >= until_s:
                continue
            try:
                unbroken = await self._until_good(
                    client, _Poll.EVENTS, self._read_events, stop_before_delay(until_s - now_s)
                )
            except TroubleError as error:
                self._events_at_s = self._clock() + requested_wait_s(error)
                await asyncio.sleep(max(0.0, until_s - self._clock()))
                return
            if not unbroken:
                return

    async def _until_good(
        self,
        client: ManagerClient,
        poll: _Poll,
        read: Callable[[ManagerClient], Awaitable[T]],
        stop: stop_base,
    ) -> T:
        """Return the result of `read` once it succeeds. Raises its last `TroubleError` when
        stopped.
        """

        async def attempt() -> T:
            began_s = self._clock()
            try:
                result = await read(client)
            except TroubleError as error:
                self._metrics.took(poll, self._clock() - began_s)
                await self._failed(client, poll, error)
                raise
            self._metrics.took(poll, self._clock() - began_s)
            self._succeeded(poll)
            return result

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(TroubleError), wait=self._wait, stop=stop, reraise=True
        )
        return await retrying(attempt)

    async def _read_fabric(self, rule: FabricRule, client: ManagerClient) -> float:
        """Hand on what the manager says of the fabric; return how long that took, in seconds."""
        began_s = self._clock()
        changed = self._polled.take(await client.fabric(rule))
        self._metrics.polled(_Poll.FABRIC, "changed" if changed else "unchanged")
        return self._clock() - began_s

    async def _read_topology(self, rule: TopologyRule, client: ManagerClient) -> None:
        answer = await client.topology(rule)
        changed = answer.topology != self._topology
        self._topology, self._cursor = answer.topology, answer.cursor
        if answer.cursor is None:
            # A manager without events has no trouble with them.
            self._troubles.pop(_Poll.EVENTS, None)
        self._metrics.polled(_Poll.TOPOLOGY, "changed" if changed else "unchanged")
        self._metrics.good(answer.topology)

    async def _read_events(self, client: ManagerClient) -> bool:
        """Apply the events since the last answer; return False where the whole must be read."""
        for _ in range(MAX_PAGES):
            if self._cursor is None or self._topology is None:
                break
            page = await client.events(self._cursor)
            if isinstance(page, Refusal):
                return self._note_gap(page)
            topology = apply_events(self._topology, page.events)
            if isinstance(topology, Refusal):
                return self._note_gap(topology)
            self._topology, self._cursor = topology, page.cursor
            self._metrics.polled(_Poll.EVENTS, "changed" if page.events else "unchanged")
            self._metrics.good(topology)
            if client.is_last_page(page):
                self._last_gap = None
                return True
        return False

    def _note_gap(self, refusal: Refusal) -> bool:
        self._metrics.polled(_Poll.EVENTS, "gap")
        self._cursor = None
        if refusal.what != self._last_gap:
            self._last_gap = refusal.what
            _log.info("cluster manager's events do not follow; reading all", why=refusal.what)
        return False

    def _succeeded(self, poll: _Poll) -> None:
        if poll is _Poll.FABRIC:
            return
        self._troubles.pop(poll, None)
        sent = self._send()
        if poll is _Poll.TOPOLOGY and not sent and not self._troubles:
            # Nothing new; but the age of what discovery holds starts again.
            self._sink.submit(SourceRecovered(CLUSTER_MANAGER))

    async def _failed(self, client: ManagerClient, poll: _Poll, error: TroubleError) -> None:
        self._metrics.polled(poll, error.kind)
        if error.kind is TroubleKind.STATUS and self._sent_failing is not error.kind:
            own_words = await client.health()
            if own_words:
                what = f"{error.refusal.what}, and says of itself: {mask_secrets(own_words)}"
                refusal = Refusal(what, error.refusal.where, error.refusal.fix)
                error = TroubleError(error.kind, refusal, error.retry_after_s)
        if poll is _Poll.FABRIC:
            self._polled.take(error.refusal)
            return
        self._troubles[poll] = error
        self._send()

    def _send(self) -> bool:
        """Send discovery what changed; return whether anything did.

        What a full queue refuses is sent at the next poll.
        """
        topology = self._topology
        changed = topology is not None and topology != self._sent_topology
        if topology is not None and changed:
            self._send_topology(topology)
        trouble = next(iter(self._troubles.values()), None)
        if trouble is not None and trouble.kind is not self._sent_failing:
            self._send_trouble(trouble)
        elif trouble is None and self._sent_failing is not None:
            self._send_recovery()
        else:
            return changed
        return True

    def _send_topology(self, topology: ManagedTopology) -> None:
        if self._sink.submit(ManagerReported(topology)):
            self._sent_topology, self._sent_failing = topology, None
            _log.info(
                "cluster manager's topology changed",
                machines=len(topology.machines),
                groups=len(topology.groups),
            )

    def _send_trouble(self, trouble: TroubleError) -> None:
        refusal = trouble.refusal
        if self._sink.submit(SourceFailed.of(CLUSTER_MANAGER, refusal)):
            self._sent_failing = trouble.kind
            _log.warning(
                "cluster manager fails; what it said before stays",
                kind=trouble.kind.value,
                what=refusal.what,
                where=refusal.where,
                fix=refusal.fix,
            )

    def _send_recovery(self) -> None:
        if self._sink.submit(SourceRecovered(CLUSTER_MANAGER)):
            self._sent_failing = None
            _log.info("cluster manager answers again")


def _settings(settings: MasterSettings) -> ClusterManagerSettings:
    """Return the cluster manager's part of the settings."""
    return ClusterManagerSettings(
        address=settings.cluster_manager_address,
        credentials_dir=settings.credentials_dir,
        poll_topology_s=settings.cluster_manager_poll_topo_period,
        poll_events_s=settings.cluster_manager_poll_event_period,
        ca_file=settings.cluster_manager_ca_file,
        insecure=settings.cluster_manager_insecure,
        mapping_file=settings.cluster_manager_mapping_file,
    )


def _unused(file: Path | None, section: str) -> Refusal:
    what = f"the mapping file has no section {section}, which the mode or --precedence asks for"
    where = f"--cluster-manager-mapping-file={file}"
    return Refusal(what, where, "add it (docs/cluster-manager.md), or choose another --mode")


def _start(context: SourceContext) -> Work:
    settings = context.settings
    return ClusterManager(
        _settings(settings),
        context.sink,
        context.registry,
        context.clock,
        has_groups=settings.uses(MANAGED),
        polled=context.polled if settings.polls_fabric else None,
    ).run


ROW = SourceRow(MANAGED, _start, also=lambda settings: settings.polls_fabric)
