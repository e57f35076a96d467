"""A small cluster for gangs: what an API server keeps, and schedulers that bind.

The API server judges each write by the version that it names, and holds the machine to what must
never happen there. The capacity and the holds are the real ones.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from tests.gangs.jobs import Job
from topo.gangs.decisions.check import apart_groups, lost_nodes, settled_groups, split_groups
from topo.gangs.decisions.eviction import Evictable
from topo.gangs.decisions.place import answer_place
from topo.gangs.machine.events import (
    Checked,
    Observed,
    Planned,
    Refused,
    Vanished,
    WriteRefused,
)
from topo.gangs.machine.gang import (
    Gang,
    GangId,
    Member,
    Note,
    PodUid,
    Selection,
    expected_member,
)
from topo.gangs.machine.instructions import (
    Check,
    Instruction,
    LabelNodes,
    Nominate,
    Open,
    OpenUnplanned,
    Place,
    Release,
    UnlabelNodes,
)
from topo.model.ids import GroupPath, NodeName
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.events import (
    HoldAsked,
    HoldChange,
    HoldCommitted,
    HoldReleased,
    Pod,
    PodGone,
    PodPhase,
    PodSeen,
)
from topo.placement.booking.holds import HoldId, HoldRequest, Limits
from topo.placement.capacity.capacity import Capacity

NAMESPACE = "jobs"


@dataclass(slots=True)
class Cluster:
    """Nodes, pods and labels as the API server has them; what GPUs are taken is in the bookings."""

    capacity: Capacity
    bookings: Bookings = field(init=False)
    jobs: dict[GangId, Job] = field(default_factory=dict)
    pods: dict[PodUid, Member] = field(default_factory=dict)
    owner: dict[PodUid, GangId] = field(default_factory=dict)
    labels: dict[GangId, dict[NodeName, Selection]] = field(default_factory=dict)
    holds: dict[HoldId, GangId] = field(default_factory=dict)
    foreign: dict[str, NodeName] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)
    """Of foreign pods, by name."""
    starved: set[NodeName] = field(default_factory=set)
    """Nodes that lack what only schedulers count, such as processors: they bind no gang there."""
    preempts: bool = False
    """Whether schedulers have pods of lower priority evicted."""
    slipped: set[GangId] = field(default_factory=set)
    """Jobs of which a pod was created without a gate."""
    opened_until: dict[GangId, int] = field(default_factory=dict)
    """The version at which a pod without a gate was last there, of gangs that lost one."""
    versions: Iterator[int] = field(default_factory=lambda: count(1))
    label_versions: Counter[tuple[GangId, NodeName]] = field(default_factory=Counter)
    names: Iterator[int] = field(default_factory=lambda: count(1))
    generation: int = 1

    def __post_init__(self) -> None:
        self.bookings = Bookings(self.capacity, Limits(hold_s=1e9))

    # What users and kubelets do

    def submit(self, job: Job) -> None:
        """The job and all of its pods, gated."""
        self.jobs[job.id] = job
        for rank in range(job.request.pods):
            self.create(job.id, rank)

    def create(self, gang_id: GangId, rank: int, **more: object) -> PodUid:
        """A pod, gated."""
        uid = PodUid(f"{gang_id}-{rank}.{next(self.names)}")
        values: dict[str, object] = {"uid": uid, "name": f"{gang_id}-{rank}", "rank": rank}
        values |= {"version": self._version(), "gated": True}
        values |= {"gpus": self.jobs[gang_id].gpus_of(rank)}
        self.pods[uid] = Member(**(values | more))  # type: ignore[arg-type]
        self.owner[uid] = gang_id
        if not self.pods[uid].gated:
            self.slipped.add(gang_id)
        return uid

    def change(self, uid: PodUid, **fields: object) -> None:
        """A write that was granted."""
        before = self.pods[uid]
        after = replace(before, version=self._version(), **fields)  # type: ignore[arg-type]
        self.pods[uid] = after
        if before.live and not after.live:
            self._note_lost(before)
        self._count(uid)

    def delete(self, uid: PodUid) -> None:
        """The pod is gone at once."""
        self._note_lost(self.pods[uid])
        del self.pods[uid]
        del self.owner[uid]
        self.bookings.advance(0.0, PodGone(uid))

    def _note_lost(self, pod: Member) -> None:
        if not pod.gated:
            self.opened_until[self.owner[pod.uid]] = int(self._version())

    def end(self, gang_id: GangId) -> None:
        """The job is deleted with its pods."""
        for uid in self.uids(gang_id):
            self.delete(uid)
        del self.jobs[gang_id]

    def intrude(self, name: str, node: NodeName, gpus: int = 8, priority: int = 100) -> None:
        """A pod of nobody here takes a node."""
        self.priorities[name] = priority
        pod = Pod(uid=name, namespace="other", name=name, node=node, gpus=gpus)
        self.foreign[name] = node
        self.bookings.advance(0.0, PodSeen(pod, PodPhase.BOUND))

    def leave(self, name: str) -> None:
        """It ends."""
        del self.foreign[name]
        self.bookings.advance(0.0, PodGone(name))

    def cordon(self, node: NodeName, *, cordoned: bool = True) -> None:
        """Whether new pods may start on a node."""
        host = self.capacity.host(node)
        assert host is not None
        self.capacity.upsert(replace(host, cordoned=cordoned))

    # What there is

    def homes(self) -> dict[NodeName, GroupPath]:
        """Where each node stands."""
        return {host.name: host.path for host in self.capacity.hosts()}

    def swap(self, one: NodeName, other: NodeName) -> None:
        """The cables of two nodes are exchanged: each stands in the groups of the other."""
        hosts = [self.capacity.host(node) for node in (one, other)]
        first, second = (host for host in hosts if host is not None)
        self.capacity.upsert(replace(first, path=second.path))
        self.capacity.upsert(replace(second, path=first.path))

    def uids(self, gang_id: GangId) -> list[PodUid]:
        """A gang's pods by rank."""
        mine = (uid for uid, owner in self.owner.items() if owner == gang_id)
        return sorted(mine, key=lambda uid: (self.pods[uid].rank, uid))

    def members(self, gang_id: GangId) -> tuple[Member, ...]:
        """The same as they are."""
        return tuple(self.pods[uid] for uid in self.uids(gang_id))

    def bound(self, gang_id: GangId) -> dict[int, NodeName]:
        """Where the ranks of a gang run."""
        found = self.members(gang_id)
        return {member.rank: member.node for member in found if member.live and member.node}

    def seen(self, gang_id: GangId) -> Observed:
        """The gang as an event."""
        job = self.jobs[gang_id]
        gang = Gang(
            id=gang_id,
            namespace=NAMESPACE,
            name=gang_id,
            kind="Job",
            binding=job.binding,
            request=job.request,
            at_least=job.at_least or job.request.pods,
            is_elastic=job.is_elastic,
            priority=job.priority,
            created_s=job.created_s,
            wait_s=job.wait_s,
            awaits=job.awaits,
            takes=job.takes,
            ungated=job.ungated,
            preempts=True,
            members=(*self.members(gang_id), *self._expected(job)),
            labelled=dict(sorted(self.labels.get(gang_id, {}).items())),
            holds=self.holds_of(gang_id),
        )
        return Observed(gang)

    def _expected(self, job: Job) -> Iterator[Member]:
        there = {member.rank for member in self.members(job.id) if member.live}
        ranks = range(job.request.pods) if job.is_late else ()
        return (expected_member(job.id, rank) for rank in ranks if rank not in there)

    def holds_of(self, gang_id: GangId) -> dict[HoldId, Mapping[NodeName, int]]:
        """The holds of a gang that exist, with their places."""
        living = {hold.id: hold.places for hold in self.bookings}
        mine = (hold for hold, owner in self.holds.items() if owner == gang_id)
        return {hold: living[hold] for hold in mine if hold in living}

    def with_remains(self) -> set[GangId]:
        """Return the gangs for which nodes are labelled or holds were made."""
        return {*self.labels, *self.holds.values()}

    def left(self, gang_id: GangId) -> Vanished:
        """What is left of a gang that is gone."""
        labelled = tuple(self.labels.get(gang_id, {}))
        return Vanished(gang_id, labelled, tuple(self.holds_of(gang_id)))

    def groups(self, gang_id: GangId) -> dict[int, set[tuple[str, ...]]]:
        """The dragonflies in which each group of a gang runs."""
        size = self.jobs[gang_id].request.pods_per_group
        found: dict[int, set[tuple[str, ...]]] = {}
        for rank, node in self.bound(gang_id).items():
            host = self.capacity.host(node)
            assert host is not None
            found.setdefault(rank // size, set()).add(tuple(host.path))
        return found

    # What a controller writes

    def read(self, instruction: Instruction) -> dict[NodeName, int]:
        """The versions of the nodes whose labels a write is about, as its leader knows them."""
        if not isinstance(instruction, LabelNodes | UnlabelNodes):
            return {}
        nodes = (
            dict(instruction.nodes) if isinstance(instruction, LabelNodes) else instruction.nodes
        )
        return {node: self.label_versions[instruction.id, node] for node in nodes}

    def write_read(
        self, instruction: Instruction, read: dict[NodeName, int]
    ) -> WriteRefused | None:
        """The write's effect, or why it is refused: labels where a node has another version."""
        if isinstance(instruction, LabelNodes | UnlabelNodes):
            now = self.read(instruction)
            changed = [node for node in now if now[node] != read[node]]
            if changed:
                why = "the object has been modified"
                return WriteRefused(instruction.id, changed[0], why)
        return self.write(instruction)

    def write(self, instruction: Instruction) -> WriteRefused | None:
        """The write's effect, or why it is refused."""
        if isinstance(instruction, LabelNodes | UnlabelNodes):
            self.label_versions.update((instruction.id, node) for node in self.read(instruction))
        match instruction:
            case Nominate(gang_id, pod, note, node):
                return self._patch(gang_id, pod.uid, pod.version, nominated=node, note=note)
            case Open(gang_id, pod, note):
                return self._open(gang_id, pod.uid, pod.version, note)
            case OpenUnplanned(gang_id, pod, _):
                return self._patch(gang_id, pod.uid, pod.version, gated=False)
            case LabelNodes(gang_id, nodes):
                self.labels.setdefault(gang_id, {}).update(nodes)
            case UnlabelNodes(gang_id, nodes):
                for node in nodes:
                    self.labels.get(gang_id, {}).pop(node, None)
            case Release(_, hold):
                self.bookings.advance(0.0, HoldReleased(hold))
        return None

    def _open(self, gang_id: GangId, uid: PodUid, version: str, note: Note) -> WriteRefused | None:
        pod = self.pods.get(uid)
        if pod is not None and pod.version == version:
            # What must hold in the cluster itself, whoever wrote it, whenever a gate comes off.
            assert pod.gated, "a gate is taken off twice"
            evicts = note.over and self.jobs[gang_id].binding.is_together
            nominee = None if evicts else note.node  # it is nominated once pods are evicted
            assert pod.nominated == nominee, "it is opened before it is nominated"
            live = [each for each in self.members(gang_id) if each.live]
            # A leader may have opened it beside a pod that slipped through, or one that ran when
            # it read the pods.
            is_first = all(each.gated for each in live) and gang_id not in self.slipped
            is_first = is_first and self.opened_until.get(gang_id, 0) < int(version)
            starts = self.seen(gang_id).gang.start_pods
            live = [each for each in live if each.rank < starts]
            for other in live if is_first else ():  # one that came later is not of the plan
                planned = other.note is not None or int(other.version) < int(version)
                # A nomination that a later leader took back leaves its note.
                assert other.note or not planned, f"{uid} is opened before {other.uid}"
        return self._patch(gang_id, uid, version, gated=False, selection=note.selection)

    def _patch(
        self, gang_id: GangId, uid: PodUid, version: str, **fields: object
    ) -> WriteRefused | None:
        if uid not in self.pods:
            return WriteRefused(gang_id, uid, "the pod is not found", version)
        if self.pods[uid].version != version:
            return WriteRefused(gang_id, uid, "the object has been modified", version)
        if self.pods[uid].node is not None:
            return WriteRefused(gang_id, uid, "the pod is bound", version)
        self.change(uid, **fields)
        return None

    def _version(self) -> str:
        return str(next(self.versions))

    def list_pods(self) -> None:
        """A leader that takes over books what it reads, not what another one had booked."""
        for uid in self.pods:
            self._count(uid)

    def _count(self, uid: PodUid) -> None:
        """Tells the bookings what the pod takes, as the source of pods does."""
        member = self.pods[uid]
        node = member.node
        if node is None and not member.gated:
            is_held = member.note is not None and member.note.is_booked
            node = member.note.node if member.note and is_held else member.nominated
        if node is None or member.finished:
            self.bookings.advance(0.0, PodGone(uid))
            return
        gpus, hold = self.gpus_of(uid), member.note.hold if member.note is not None else None
        pod = Pod(uid=uid, namespace=NAMESPACE, name=member.name, node=node, gpus=gpus, hold=hold)
        phase = PodPhase.BOUND if member.node is not None else PodPhase.NOMINATED
        self.bookings.advance(0.0, PodSeen(pod, phase))

    # What a leader answers to itself

    def place(self, asked: Place) -> Planned | Refused:
        """The places, held; or why not."""
        # A hold that was made since the gang was read is replaced like those before it.
        replaced = dict.fromkeys((*asked.replaced, *self.holds_of(asked.id)))
        asked = replace(asked, replaced=tuple(replaced))
        own = self._own([p.uid for p in asked.wanted], asked)
        found = answer_place(
            self.capacity, asked, own, lambda: self.evictable(asked.id, asked.over)
        )
        if isinstance(found, Refused):
            return found
        if found.evicted:
            self.bookings.advance(0.0, *(HoldReleased(each) for each in asked.replaced))
            return Planned(
                id=asked.id,
                ask=asked.ask,
                nodes=found.nodes,
                hold=HoldId(f"over-{next(self.names)}"),
                mode=found.mode,
                generation=self.generation,
                certified=found.certified,
                inside=found.inside(self.capacity),
                evicts=", ".join(pod.owner for pod in found.evicted),
            )
        hold = HoldId(f"hold-{next(self.names)}")
        self.holds[hold] = asked.id
        wish = HoldRequest(found.request, 1e6, f"{asked.id}/{hold}")
        let_go = [PodGone(pod.uid) for pod in asked.wanted if pod.uid in self.pods]
        released = [HoldReleased(each) for each in asked.replaced]
        ask = HoldAsked(
            id=hold,
            wish=wish,
            generation=self.generation,
            mode=found.mode,
            gpu_type=found.gpu_type,
            groups=found.groups,
            without=asked.without,
            slack=found.slack,
        )
        *_, made, _ = self.bookings.advance(0.0, *let_go, *released, ask, HoldCommitted(hold))
        assert isinstance(made, HoldChange), made
        return Planned(
            id=asked.id,
            ask=asked.ask,
            nodes=found.nodes,
            hold=hold,
            mode=found.mode,
            generation=self.generation,
            certified=found.certified,
            inside=found.inside(self.capacity),
        )

    def check(self, check: Check) -> Checked:
        """Whether the nodes are still free."""
        own = [*self._owners([pod.uid for pod, _ in check.waiting]), *check.holds]
        own += (pod.owner for pod in self.evictable(check.id, check.over))
        lost = lost_nodes(self.capacity, check, own)
        split, apart = split_groups(self.capacity, check), apart_groups(self.capacity, check)
        settled = settled_groups(self.capacity, check)
        return Checked(check.id, check.ask, lost, "", split, apart, settled)

    def evictable(self, gang_id: GangId, below: int | None) -> list[Evictable]:
        """Bound pods of others of a lower priority."""
        found: list[Evictable] = []
        if below is None:
            return found
        for name, node in self.foreign.items():
            if self.priorities[name] < below:
                owner = f"pod/other/{name}/{name}"
                found.append(Evictable(owner, node, 8, self.priorities[name], name))
        for uid, member in self.pods.items():
            other = self.jobs[self.owner[uid]]
            if other.id != gang_id and member.node and member.live and other.priority < below:
                (owner,) = self._owners([uid])
                gpus = self.gpus_of(uid)
                found.append(Evictable(owner, member.node, gpus, other.priority, other.id))
        return found

    def evict(self, pod: Evictable) -> None:
        """A scheduler has it deleted; the job of a gang makes another one, gated."""
        *_, name, uid = pod.owner.split("/")
        if name in self.foreign:
            self.leave(name)
            return
        member, gang_id = self.pods[PodUid(uid)], self.owner[PodUid(uid)]
        self.delete(member.uid)
        self.create(gang_id, member.rank)

    def _own(self, uids: Sequence[PodUid], asked: Place) -> list[str]:
        return [*self._owners(uids), *asked.replaced]

    def _owners(self, uids: Sequence[PodUid]) -> list[str]:
        return [f"pod/{NAMESPACE}/{self.pods[uid].name}/{uid}" for uid in uids if uid in self.pods]

    # What schedulers go by, and what they write

    def gpus_of(self, uid: PodUid) -> int:
        """The GPUs that a pod asks for."""
        return self.pods[uid].takes_gpus(self.jobs[self.owner[uid]].request.gpus_per_pod)

    def free(self, node: NodeName, *, nominated_for: int = 0) -> int:
        """GPUs on a node that no bound pod takes."""
        host = self.capacity.host(node)
        if host is None or not host.is_open:
            return 0
        taken = sum(8 for at in self.foreign.values() if at == node)
        for uid, member in self.pods.items():
            if member.node == node and not member.finished:
                taken += self.gpus_of(uid)
        return host.gpus - taken - nominated_for

    def selected(self, uid: PodUid) -> list[NodeName]:
        """The nodes that a pod may be bound to, by its selector alone."""
        member, gang_id = self.pods[uid], self.owner[uid]
        if not member.selection:
            return [host.name for host in self.capacity.hosts()]
        labels = self.labels.get(gang_id, {})
        return [node for node, value in labels.items() if value == member.selection]

    def bind(self, uid: PodUid, node: NodeName) -> None:
        """The scheduler's binding: never over what the node has, never of a gated pod."""
        assert self.free(node) >= self.gpus_of(uid), f"{node} is overbooked"
        assert not self.pods[uid].gated
        self.change(uid, node=node, nominated=None, unscheduled="")
