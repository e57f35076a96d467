"""A tenant whose pods state anything, below the readers: members that no honest job has."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.gangs.jobs import Job, job
from tests.gangs.leader import Leader
from tests.gangs.world import Cluster
from topo.gangs.machine.claims import is_borne_out
from topo.gangs.machine.events import Planned, Refused, WriteRefused
from topo.gangs.machine.gang import Binding, GangId, Member, Note, PodUid, Selection
from topo.gangs.machine.instructions import Instruction, LabelNodes, Place, Release, UnlabelNodes
from topo.gangs.machine.invariants import invariants
from topo.model.errors import require
from topo.model.ids import NodeName
from topo.placement.booking.events import Pod, PodGone, PodPhase, PodSeen
from topo.placement.booking.holds import HoldId

PREFIX = "evil-"
_RANKS = (0, 0, 1, 1, 2, 3, 7, 900_000)


def is_evil(gang_id: GangId) -> bool:
    """Whether a gang is the hostile tenant's."""
    return gang_id.startswith(PREFIX)


class WaryCluster(Cluster):
    """The small cluster, whose source of pods counts a note only where a fact bears it out."""

    __slots__ = ()

    def write(self, instruction: Instruction) -> WriteRefused | None:
        refused = super().write(instruction)
        if isinstance(instruction, LabelNodes | UnlabelNodes | Release):
            for uid in self.uids(instruction.id):  # what bears out a note may have come or gone
                self._count(uid)
        return refused

    def place(self, asked: Place) -> Planned | Refused:
        before = {*self.holds_of(asked.id)}
        found = super().place(asked)
        changed = before ^ {*self.holds_of(asked.id)}
        for uid in self.uids(asked.id):
            note = self.pods[uid].note
            if note is not None and note.hold in changed:
                self._count(uid)
        return found

    def _count(self, uid: PodUid) -> None:
        member, gang_id = self.pods[uid], self.owner[uid]
        note, node = member.note, member.node
        if note is not None and not is_borne_out(
            note, self.holds_of(gang_id), self.labels.get(gang_id, {})
        ):
            note = None
        if node is None and not member.gated and member.live:
            node = note.node if note is not None and note.is_booked else member.nominated
        if node is None or member.finished:
            self.bookings.advance(0.0, PodGone(uid))
            return
        gpus, hold = self.gpus_of(uid), note.hold if note is not None else None
        pod = Pod(uid=uid, namespace="jobs", name=member.name, node=node, gpus=gpus, hold=hold)
        phase = PodPhase.BOUND if member.node is not None else PodPhase.NOMINATED
        self.bookings.advance(0.0, PodSeen(pod, phase))


class WaryLeader(Leader):
    """A leader that answers for the gangs of others and for what all gangs share.

    A pod may select what its gang was never given; that is the loss of its own gang.
    """

    __slots__ = ()

    def check(self) -> None:
        for gang_id, record in self.gangs._records.items():
            for broken, what in () if is_evil(gang_id) else invariants(record):
                require(not broken, f"{gang_id}: {what}")
        for broken, what in self.gangs._broken():
            require(not broken, what)


@dataclass
class Tenant:
    """Makes and changes pods of its own gangs. `sizes` returns the GPUs of the pods of one."""

    cluster: Cluster
    random: random.Random
    sizes: Callable[[], tuple[int, ...]] = tuple
    names: int = 0

    def act(self) -> None:
        """One thing that it does."""
        acts = (self.crowd, *(self.join,) * 3, *(self.forge,) * 3, self.ungate, self.leave)
        self.random.choice(acts)()

    def crowd(self) -> None:
        """A gang of which two or three pods have one rank, or a rank beyond it."""
        if len(self._gangs()) >= 3:
            return
        self.names += 1
        made = self._job()
        self.cluster.jobs[made.id] = made
        self.cluster.slipped.add(made.id)
        for _ in range(self.random.randint(1, 4)):
            self._create(made)

    def join(self) -> None:
        """One more pod of a gang."""
        if gangs := self._gangs():
            self._create(self.cluster.jobs[self.random.choice(gangs)])

    def forge(self) -> None:
        """The annotations of a pod are written anew."""
        if (uid := self._pod()) is not None and self.cluster.pods[uid].node is None:
            self.cluster.change(uid, note=self._note(self.cluster.owner[uid]))

    def ungate(self) -> None:
        """A gate is taken off."""
        if (uid := self._pod()) is not None and self.cluster.pods[uid].gated:
            self.cluster.change(uid, gated=False)

    def leave(self) -> None:
        """A pod is deleted, terminates without end, or is over."""
        if (uid := self._pod()) is None:
            return
        match self.random.randrange(3):
            case 0:
                self.cluster.delete(uid)
            case 1:
                self.cluster.change(uid, terminating=True)
            case _:
                self.cluster.change(uid, finished=True)
        gang_id = self.random.choice(self._gangs())
        if not self.cluster.uids(gang_id):
            del self.cluster.jobs[gang_id]

    def _job(self) -> Job:
        pods, size = self.random.choice(((1, 8), (2, 16), (3, 16), (4, 16), (4, 32)))
        made = job(f"{PREFIX}{self.names}", pods, size, binding=self.random.choice([*Binding]))
        made.at_least = self.random.choice((0, 0, 1))
        made.is_late = self.random.random() < 0.2
        made.is_elastic = self.random.random() < 0.1
        made.created_s = 1e6 + self.names
        made.sizes = self.sizes()
        return made

    def _create(self, made: Job) -> None:
        rank = self.random.choice((*_RANKS, self.random.randrange(made.request.pods)))
        if self.random.random() < 0.8:  # the reader counts a pod of such a rank as one more pod
            pods = max(made.request.pods, min(rank, 9) + 1)
            made.request = replace(made.request, pods=pods)
        node = None
        if self.random.random() < 0.1:
            node = self._node()
            if self.cluster.free(node) < made.gpus_of(rank):
                return  # a kubelet fails it
        uid = self.cluster.create(
            made.id,
            rank,
            gated=node is None and self.random.random() < 0.7,
            other_gates=self.random.random() < 0.1,
            note=self._note(made.id) if self.random.random() < 0.5 else None,
            selection=Selection(self.random.choice(("", "", *self._selections()))),
            node=node,
        )
        self.cluster.change(uid)

    def _note(self, gang_id: GangId) -> Note:
        """A note with a victim's words, with its own, or with none that exist."""
        known = [pod.note for pod in self.cluster.pods.values() if pod.note is not None]
        holds = [*self.cluster.holds, *[*self.cluster.holds_of(gang_id)] * 3, HoldId("hold-x")]
        made = Note(
            node=self.random.choice([self._node(), NodeName("gone")]),
            group=self.random.choice((0, 0, 1, 5)),
            hold=self.random.choice(holds),
            selection=Selection(self.random.choice([*self._selections(), "x"])),
            generation=1,
            certified=True,
            over=self.random.random() < 0.1,
            withdrawn=self.random.random() < 0.1,
        )
        if known and self.random.random() < 0.4:
            return self.random.choice(known)
        return made

    def _selections(self) -> list[str]:
        return [each for labels in self.cluster.labels.values() for each in labels.values()]

    def _gangs(self) -> list[GangId]:
        return [each for each in self.cluster.jobs if is_evil(each)]

    def _pods(self) -> list[Member]:
        pods = self.cluster.pods.values()
        return [pod for pod in pods if is_evil(self.cluster.owner[pod.uid])]

    def _pod(self) -> PodUid | None:
        found = self._pods()
        return self.random.choice(found).uid if found else None

    def _node(self) -> NodeName:
        return self.random.choice([host.name for host in self.cluster.capacity.hosts()])
