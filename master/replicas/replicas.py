"""A master's part in an installation of several, composed from its parts; no I/O."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import prometheus_client as prom
from aiohttp import web

from master.cluster import Cluster
from master.kube.leader_election.lease import Leadership, Lease, LeaseMetrics, LeaseName
from master.replicas.address import LeaderAddress, Ports, annotations, leader_address
from master.replicas.credential import Credential
from master.replicas.follower import AGE, ORIGIN, Follower, Origin, TakeUp
from master.replicas.forwarding import QuestionForwarder, ReportForwarder
from master.replicas.leader_pod import CheckedLeader, OtherMasters
from master.replicas.peer import PeerMaster
from master.role import Replica, Role, RoleKind
from master.settings import MasterSettings
from topo.kit.addresses import is_loopback, parse_networks
from topo.kit.metrics import gauge
from topo.kit.tasks import Work
from topo.model.conditions.master import MasterCondition
from topo.model.rest.topology import WarningDocument

LEASE = "topo-master"
OLD_S = 15.0
"""A follower that heard nothing of the leader for so long says so: others would lead by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """The lease, the connection to the leader, and what a follower shows and forwards."""

    lease: Lease
    leader: CheckedLeader
    peer: PeerMaster
    follower: Follower
    forwarder: ReportForwarder
    questions: QuestionForwarder
    credential: Credential
    replica: Replica

    def works(self, show_kept: Callable[[], Awaitable[None]]) -> Mapping[str, Work]:
        """Return the background work. A follower shows what is kept until the leader answers."""

        async def follow() -> None:
            await show_kept()
            await self.follower.run()

        works = {"lease": self.lease.run, "leader-address": self.leader.run}
        return {**works, "follower": follow}

    @property
    def age_s(self) -> float | None:
        """The age of what this master shows in seconds; None where it is its own, or unknown."""
        return None if self.replica.serves else self.follower.age_s

    @property
    def shows_copy(self) -> bool:
        """Whether this master shows the copy on its own disk."""
        return not self.replica.serves and self.follower.origin is Origin.COPY

    @property
    def copy_reason(self) -> str:
        """Why the copy is shown."""
        return self.lease.trouble or "no leader was heard yet"

    @property
    def standby_reason(self) -> str:
        """Why this master follows with nothing to show and leads next; empty otherwise.

        Masters of two modes or versions, in an update, cannot use each other's state: the new one
        must count as ready, or the old one would never end.
        """
        useless = "" if self.replica.role.acts else self.follower.useless
        return useless and f"the leader's state is of no use here, it leads next: {useless}"

    @property
    def warnings(self) -> tuple[WarningDocument, ...]:
        """The warnings that what is shown is old, and what the leader warns of its cables."""
        return (*self._of_age(), *self._of_cables())

    def _of_cables(self) -> tuple[WarningDocument, ...]:
        told = "" if self.replica.role.acts else self.follower.cables
        return (WarningDocument.of(MasterCondition.CABLES_DIFFER, told),) if told else ()

    def _of_age(self) -> tuple[WarningDocument, ...]:
        role, age_s = self.replica.role, self.age_s
        if self.shows_copy and self.follower.kept is not None:
            return (_of_copy(self.follower.kept.state.saved_at_s, self.copy_reason),)
        if role.acts or (age_s is not None and age_s < OLD_S):
            return ()
        leader = role.leader_url or self.leader.doubt or "no leader is known"
        text = "nothing was heard of a leader yet" if age_s is None else "what is shown is old"
        return (WarningDocument.of(MasterCondition.LEADER_SILENT, f"{text} ({leader})"),)


def _of_copy(saved_at_s: float, why: str) -> WarningDocument:
    at = datetime.fromtimestamp(saved_at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    text = f"what is shown is this master's own copy, as known at {at}: {why}"
    return WarningDocument.of(MasterCondition.STATE_COPY, text)


def build_replicas(
    settings: MasterSettings,
    cluster: Cluster,
    replica: Replica,
    *,
    registry: prom.CollectorRegistry,
    reports: prom.Counter,
    take_up: TakeUp,
    clock: Callable[[], float],
) -> Replicas:
    """Return the parts of a master that stands for election; its role follows the lease."""
    credential = Credential(settings.replica_token_file, cluster.reviews, clock)
    named = parse_networks(settings.replica_addresses)
    others = OtherMasters(cluster.client, credential, named)
    leader = _checked_leader(None if is_loopback(settings.pod_ip) else others, replica)
    lease = Lease(
        cluster.client,
        _lease_name(settings),
        settings.lease_times,
        metrics=LeaseMetrics(registry),
        clock=clock,
    )
    replica.may_act = lease.leads
    lease.on_change = partial(_take_role, settings, replica, leader)
    peer = PeerMaster(settings.tls_cert)
    follower = Follower(
        peer,
        settings.mode,
        credential=credential,
        role=lambda: replica.role,
        take_up=take_up,
        clock=clock,
    )
    made = Replicas(
        lease=lease,
        leader=leader,
        peer=peer,
        follower=follower,
        forwarder=ReportForwarder(role=lambda: replica.role, peer=peer, reports=reports),
        questions=_questions(settings, replica, credential),
        credential=credential,
        replica=replica,
    )
    gauge(registry, "topo_master_replicated_age_seconds", lambda: made.age_s or 0.0)
    return made


def _questions(
    settings: MasterSettings, replica: Replica, credential: Credential
) -> QuestionForwarder:
    """Return what forwards the questions of schedulers, whose port may have another certificate."""
    pair = settings.extender_pair
    return QuestionForwarder(
        replica=replica,
        peer=PeerMaster(pair and pair[0]),
        credential=None if settings.extender_client_ca is None else credential,
    )


def _lease_name(settings: MasterSettings) -> LeaseName:
    return LeaseName(
        name=LEASE,
        namespace=settings.pod_namespace,
        # A process that is started again under its pod's name is not the one that led.
        holder=f"{settings.pod_name}_{secrets.token_hex(4)}",
        annotations=annotations(settings.domain, _ports(settings)),
    )


def _take_role(
    settings: MasterSettings, replica: Replica, leader: CheckedLeader, leadership: Leadership
) -> None:
    """Lead, or follow the leader that the lease names, once its address is checked."""
    if leadership.leads:
        replica.become(Role(RoleKind.LEADER))
    elif not replica.has_acted:
        named = leader_address(leadership.annotations, settings.domain, _ports(settings))
        leader.believe(leader.name(named))


def _checked_leader(masters: OtherMasters | None, replica: Replica) -> CheckedLeader:
    """Return the check of the leader's address; the replica follows an address that passed it."""

    def believe(address: LeaderAddress) -> None:
        if not replica.has_acted:
            replica.become(Role(RoleKind.FOLLOWER, address.api, address.reports, address.extender))

    return CheckedLeader(masters, believe=believe)


async def leader_connection(
    replicas: Replicas | None, _app: web.Application
) -> AsyncIterator[None]:
    """Open the connection to the leader; release the lease when all work of a leader has ended.

    Raises `BadInputError`.
    """
    if replicas is None:
        yield
        return
    await replicas.credential.own()
    peers = (replicas.peer, replicas.questions.peer)
    for peer in peers:
        await peer.open()
    try:
        yield
    finally:
        await replicas.lease.release()
        for peer in peers:
            await peer.close()


async def add_age_header(
    replicas: Replicas, _request: web.Request, response: web.StreamResponse
) -> None:
    """Add age and origin to every answer of a follower."""
    if (age_s := replicas.age_s) is not None and AGE not in response.headers:
        response.headers[AGE] = f"{age_s:.1f}"
        response.headers[ORIGIN] = str(replicas.follower.origin or Origin.LEADER)


def _ports(settings: MasterSettings) -> Ports:
    has_tls = settings.tls_cert is not None
    return Ports(
        host=settings.pod_ip,
        api=settings.server_port,
        reports=settings.rpc_server_port,
        api_scheme="https" if has_tls and settings.tls_scope == "all" else "http",
        reports_scheme="https" if has_tls else "http",
        extender=0 if settings.extender == "off" else settings.extender_port,
        extender_scheme="http" if settings.extender_pair is None else "https",
    )
