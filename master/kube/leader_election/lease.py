"""The Lease by which one of several masters leads: the I/O around `Election`."""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import NoReturn

import orjson
import prometheus_client as prom
import structlog

from master.kube.advice import next_step
from master.kube.client import Call, Caller
from master.kube.decoding import decode
from master.kube.errors import Failure, KubeError
from master.kube.leader_election.election import (
    Action,
    Election,
    Event,
    Failed,
    Found,
    LeaseRecord,
    LeaseTimes,
    Look,
    Lost,
    Missing,
    Rest,
    Woken,
    WriteLease,
    Written,
)
from master.kube.leader_election.lease_object import LEASES, LeaseSpec
from master.kube.objects import collection_path, object_path
from master.kube.schema.slim import slim
from topo.kit.metrics import counter, gauge
from topo.model.errors import TopoError

MAX_LEASE_S = 3600.0
"""The longest term that is respected: a corrupt record must not block the election for ever."""

_log = structlog.get_logger(__name__)


class LeaseLostError(TopoError):
    """This master has lost the lead."""


@slim
class _WholeLease:
    """A Lease with all of its metadata, which goes back with the next write."""

    metadata: dict[str, object]
    spec: LeaseSpec = field(default_factory=LeaseSpec)


@dataclass(frozen=True, slots=True)
class Leadership:
    """The leader as this master sees it; `annotations` are those of the holder."""

    leads: bool = False
    holder: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)


class LeaseMetrics:
    """Metrics of the election."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        self.calls = counter(registry, "topo_master_lease_calls", ("ok", "failed"))
        self.leads = gauge(registry, "topo_master_leads")
        self.transitions = gauge(registry, "topo_master_lease_transitions")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseName:
    """The name of the Lease, of this candidate, and its annotations while it holds the Lease."""

    name: str
    namespace: str
    holder: str
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class Lease:
    """Takes part in the election until cancelled; calls `on_change` when the leader changes."""

    client: Caller
    name: LeaseName
    times: LeaseTimes
    _: KW_ONLY
    metrics: LeaseMetrics
    clock: Callable[[], float] = time.monotonic
    unix_clock: Callable[[], float] = time.time
    chance: Callable[[], float] = random.random
    _failing: str = ""
    leadership: Leadership = field(default_factory=Leadership)
    on_change: Callable[[Leadership], None] = field(default_factory=lambda: lambda _: None)

    def __post_init__(self) -> None:
        self._election = Election(name=self.name.holder, times=self.times, chance=self.chance)
        self._path = object_path(LEASES, self.name.name, self.name.namespace)

    @property
    def trouble(self) -> str:
        """Why the last call about the lease failed; empty if it succeeded."""
        return self._failing

    def leads(self) -> bool:
        """Return whether our term lasts. Call it right before any work of a leader."""
        return self._election.leads(self.clock())

    def somebody_leads(self) -> bool:
        """Return whether this master leads, or another holder's term lasts, as far as is known."""
        now_s = self.clock()
        return self._election.leads(now_s) or now_s < self._election.respected_until_s

    @property
    def leader_until_s(self) -> float:
        """The end of our term on the clock of this lease; in the far past without one."""
        return self._election.leader_until_s

    async def run(self) -> NoReturn:
        """Take part in the election. Raises `LeaseLostError` when our term is over."""
        event: Event = Woken()
        while True:
            action = self._election.advance(self.clock(), event)
            self._tell()
            event = await self._do(action)

    async def release(self) -> None:
        """Release the lease, so that another master leads at once.

        Call it after all work of the leader has ended.
        """
        found = self._election.found
        if not self.leads() or found is None:
            return
        try:
            async with asyncio.timeout(self._limit_s()):
                await self._give_back(found)
        except (TimeoutError, KubeError) as error:
            _log.warning("the lease is not released; it runs out", lease=self._path, why=str(error))
        else:
            _log.info("lease released", lease=self._path)

    async def _give_back(self, found: Found) -> None:
        record = replace(found.record, holder="", duration_s=1.0, renewed=self._now())
        try:
            await self._send(found, record)
        except KubeError as error:
            event = await self._look() if error.is_conflict else None
            if not isinstance(event, Found) or event.record.holder != self.name.holder:
                raise
            await self._send(event, record)  # a renewal that was broken off had been granted

    async def _do(self, action: Action) -> Event:
        match action:
            case Lost(reason):
                self.metrics.leads.set(0)
                raise LeaseLostError(f"the lease is lost: {reason}")
            case Rest(until_s):
                await asyncio.sleep(max(0.0, until_s - self.clock()))
                return Woken()
            case Look():
                return await self._tried(self._look())
            case WriteLease():
                return await self._tried(self._write(action))

    async def _tried(self, call: Awaitable[Event]) -> Event:
        try:
            async with asyncio.timeout(self._limit_s()):
                event = await call
        except TimeoutError:
            return self._failed(Failed("the API server did not answer in time"))
        except KubeError as error:
            is_lease = error.failure is not Failure.MALFORMED
            why = str(error) if is_lease else "the API server answers what is no Lease"
            return self._failed(Failed(why, error.retry_after_s), _fix(error))
        self.metrics.calls.labels("ok").inc()
        if self._failing:
            _log.info("calls about the lease succeed again", lease=self._path)
        self._failing = ""
        return event

    def _failed(self, failed: Failed, fix: str = "none") -> Failed:
        self.metrics.calls.labels("failed").inc()
        if failed.reason != self._failing:
            _log.warning("lease not asked", lease=self._path, why=failed.reason, fix=fix)
        self._failing = failed.reason
        return failed

    async def _look(self) -> Event:
        try:
            call = Call(method="GET", path=self._path, timeout_s=self._limit_s(), urgent=True)
            return _found(await self.client.call(call))
        except KubeError as error:
            if error.is_missing:
                return Missing()
            raise

    async def _write(self, write: WriteLease) -> Event:
        asked_s, now = self.clock(), self._now()
        record = LeaseRecord(
            holder=self.name.holder,
            duration_s=self.times.duration_s,
            transitions=write.transitions,
            acquired=write.acquired or now,
            renewed=now,
        )
        return Written(await self._send(write.found, record), asked_s)

    async def _send(self, found: Found | None, record: LeaseRecord) -> Found:
        metadata = dict(found.metadata) if found else {}
        metadata.pop("managedFields", None)
        metadata |= {"name": self.name.name, "namespace": self.name.namespace}
        before = metadata.get("annotations")
        kept = before if isinstance(before, dict) else {}
        ours = self.name.annotations
        metadata["annotations"] = {**kept, **ours} if record.holder else _without(kept, ours)
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": {
                "holderIdentity": record.holder,
                "leaseDurationSeconds": math.ceil(record.duration_s),
                "leaseTransitions": record.transitions,
                "acquireTime": record.acquired,
                "renewTime": record.renewed,
            },
        }
        call = Call(
            method="PUT" if found else "POST",
            path=self._path if found else collection_path(LEASES, self.name.namespace),
            body=orjson.dumps(body),
            timeout_s=self._limit_s(),
            urgent=True,
        )
        return _found(await self.client.call(call))

    def _limit_s(self) -> float:
        """Return the time limit of a call: a retry period, never beyond our term."""
        if not self._election.leads(self.clock()):
            return self.times.retry_s
        return min(self.times.retry_s, self._election.leader_until_s - self.clock())

    def _now(self) -> str:
        return datetime.fromtimestamp(self.unix_clock(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _tell(self) -> None:
        found, leads = self._election.found, self.leads()
        metadata = found.metadata if found is not None else {}
        said = metadata.get("annotations")
        annotations = said if isinstance(said, dict) else {}
        now = Leadership(leads, self._election.holder, annotations)
        self.metrics.leads.set(leads)
        self.metrics.transitions.set(found.record.transitions if found is not None else 0)
        if now == self.leadership:
            return
        if (leads, now.holder) != (self.leadership.leads, self.leadership.holder):
            _log.info("who leads", leader=now.holder or "nobody", this_master=leads)
        self.leadership = now
        self.on_change(now)


def _fix(error: KubeError) -> str:
    """Return the next step; "none" if the problem resolves by itself."""
    if not error.is_denied:
        return "none"
    if error.status == HTTPStatus.UNAUTHORIZED:
        return next_step(error)
    return "allow get, create and update of leases in this namespace"


def _without(annotations: Mapping[str, object], ours: Mapping[str, str]) -> dict[str, object]:
    return {name: value for name, value in annotations.items() if name not in ours}


def _found(content: bytes) -> Found:
    """Return the record of a Lease as the API server writes it. Raises `KubeError`."""
    lease = decode(_WholeLease, content)
    spec = lease.spec
    record = LeaseRecord(
        holder=spec.holder_identity or "",
        duration_s=min(spec.lease_duration_seconds or 0.0, MAX_LEASE_S),
        transitions=spec.lease_transitions or 0,
        acquired=spec.acquire_time or "",
        renewed=spec.renew_time or "",
    )
    return Found(record, lease.metadata)
