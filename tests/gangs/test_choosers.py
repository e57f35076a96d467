"""Pods without GPUs by whose node the domain of their gang is chosen: opened last, and rightly.

The model knows racks, what is booked in them, and what LeaderWorkerSet does: workers come once
their leader is bound, and select its rack.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gangs.jobs import Job
from tests.gangs.leader import Leader
from tests.gangs.test_own_domains import job, racks
from tests.gangs.world import Cluster
from topo.gangs.machine.events import Observed, Planned, Refused, WriteRefused
from topo.gangs.machine.gang import Binding, GangId, Member, PodUid
from topo.gangs.machine.instructions import (
    Instruction,
    Occupied,
    OpenInDomain,
    OpenUnplanned,
    Place,
)
from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName
from topo.placement.job.request import Eligibility

A, B, C = map(GangId, "abc")


def rack_of(node: NodeName) -> str:
    return f"r{node[1:].split('-')[0]}"


@dataclass(slots=True)
class Sets(Cluster):
    """LeaderWorkerSets whose leaders take no GPUs, each in a rack of its own."""

    leaders: dict[GangId, Member] = field(default_factory=dict)
    chosen: dict[GangId, str] = field(default_factory=dict)

    def ask(self, gang_id: GangId, pods: int) -> None:
        """Its user makes a set; its leader comes, gated."""
        binding = Binding.PIECEMEAL
        self.jobs[gang_id] = Job(gang_id, job(pods), binding=binding, is_late=True)
        self.restart(gang_id)

    def restart(self, gang_id: GangId) -> None:
        """The leader is lost with its workers, and made again."""
        for uid in self.uids(gang_id):
            self.delete(uid)
        self.chosen.pop(gang_id, None)
        uid = PodUid(f"{gang_id}-leader.{next(self.names)}")
        version = self._version()
        self.leaders[gang_id] = Member(
            uid=uid, name=f"{gang_id}-leader", rank=0, version=version, gated=True
        )

    def follow(self, gang_id: GangId) -> None:
        """Its controller makes the workers that are missing, once the leader runs."""
        if gang_id in self.chosen:
            there = {member.rank for member in self.members(gang_id)}
            for rank in range(self.jobs[gang_id].request.pods):
                if rank not in there:
                    self.create(gang_id, rank)

    def racks(self, gang_id: GangId) -> Counter[str]:
        """Where a gang's holds and pods have GPUs."""
        found: Counter[str] = Counter()
        for hold in self.holds_of(gang_id):
            for node, gpus in self.capacity.bookings()[hold].items():
                found[rack_of(node)] += gpus
        for uid in self.uids(gang_id):
            for owner in self._owners([uid]):
                for node, gpus in self.capacity.bookings().get(owner, {}).items():
                    found[rack_of(node)] += gpus
        return found

    def seen(self, gang_id: GangId) -> Observed:
        gang = super(Sets, self).seen(gang_id).gang
        leader = self.leaders[gang_id]
        if gang_id in self.chosen:
            inside = Eligibility(selector=(("rack", self.chosen[gang_id]),))
            gang = replace(gang, request=replace(gang.request, eligible=inside))
        return Observed(replace(gang, choosers=(leader,)))

    def write(self, instruction: Instruction) -> WriteRefused | None:
        match instruction:
            case OpenInDomain(gang_id, pod, label, node):
                known = self.leaders.get(gang_id)
                if known is None or (known.uid, known.version) != (pod.uid, pod.version):
                    return WriteRefused(gang_id, pod.uid, "modified", pod.version)
                rack, gpus = rack_of(node), 8 * self.jobs[gang_id].request.pods
                assert (known.gated, label) == (True, "rack")
                assert self.racks(gang_id) == {rack: gpus}, "not all places are kept there"
                others = self.jobs.keys() - {gang_id}
                assert not any(self.racks(other)[rack] for other in others), "others are there"
                self.chosen[gang_id] = rack
                version, at = self._version(), NodeName(f"host of {rack}")
                self.leaders[gang_id] = replace(known, gated=False, node=at, version=version)
                return None
            case OpenUnplanned():
                raise AssertionError("nobody asked for that")
        return super(Sets, self).write(instruction)

    def place(self, asked: Place) -> Planned | Refused:
        there = [
            Occupied(node, "rack")
            for other in self.jobs.keys() - {asked.id}
            for owner in (*self.holds_of(other), *self._owners(self.uids(other)))
            for node in self.capacity.bookings().get(owner, {})
        ]
        return super(Sets, self).place(replace(asked, occupied=tuple(there)))


def state(leader: Leader, gang_id: GangId) -> GangState:
    found = leader.gangs.status(gang_id)
    assert found is not None
    return found.state


def test_a_leader_goes_to_the_rack_where_the_places_of_its_workers_are_kept() -> None:
    """The smaller rack is too small, and the larger one is the other set's then."""
    sets = Sets(racks(1, 2))
    leader = Leader.over(sets)
    for gang_id in (A, B):
        sets.ask(gang_id, 4)
        leader.settle()
    assert sets.chosen == {A: "r1"}
    assert state(leader, A) is GangState.PODS_MISSING
    assert state(leader, B) in {GangState.NO_ROOM, GangState.NEVER_FITS}
    assert sets.leaders[B].gated
    sets.follow(A)
    leader.settle()
    assert {rack_of(node) for node in sets.bound(A).values()} == {"r1"}
    assert [len(homes) for homes in sets.groups(A).values()] == [1, 1]


def test_a_leader_that_its_scheduler_binds_nowhere_is_told_with_why() -> None:
    sets = Sets(racks(2))
    leader = Leader.over(sets)
    sets.ask(A, 4)
    leader.settle()
    sets.leaders[A] = replace(sets.leaders[A], node=None, unscheduled="0/4 nodes: too few CPUs")
    leader.settle()
    found = leader.gangs.status(A)
    assert found is not None
    assert found.state is GangState.OPENED
    assert found.text == "a-leader goes to the domain of the others: 0/4 nodes: too few CPUs"
    assert sum(sets.racks(A).values()) == 32


def test_a_leader_that_waits_for_another_gate_is_not_planned() -> None:
    sets = Sets(racks(2))
    leader = Leader.over(sets)
    sets.ask(A, 4)
    sets.leaders[A] = replace(sets.leaders[A], other_gates=True)
    leader.settle()
    assert state(leader, A) is GangState.OTHER_GATE
    assert not sets.racks(A)
    sets.leaders[A] = replace(sets.leaders[A], other_gates=False)
    leader.settle()
    assert sets.chosen == {A: "r0"}


def test_a_leader_that_comes_again_beside_workers_that_run_goes_to_them() -> None:
    sets = Sets(racks(2, 2))
    leader = Leader.over(sets)
    sets.ask(A, 4)
    leader.settle()
    sets.follow(A)
    leader.settle()
    (rack,) = sets.racks(A)
    sets.leaders[A] = replace(sets.leaders[A], uid=PodUid("again"), gated=True, node=None)
    leader.settle()
    assert not sets.leaders[A].gated
    assert sets.chosen[A] == rack


def test_a_rack_that_loses_a_node_before_the_leader_is_opened_is_not_chosen() -> None:
    sets = Sets(racks(1, 1))
    leader = Leader.over(sets)
    sets.ask(A, 2)
    leader.turn()
    (planned,) = sets.racks(A)
    lost = next(host.name for host in sets.capacity.hosts() if rack_of(host.name) == planned)
    sets.cordon(lost)
    leader.settle()
    assert sets.chosen.keys() == {A}
    assert sets.chosen[A] != planned


def test_a_leader_that_comes_again_waits_until_there_is_room_for_all_of_its_workers() -> None:
    sets = Sets(racks(2))
    leader = Leader.over(sets)
    sets.ask(A, 4)
    leader.settle()
    sets.follow(A)
    leader.settle()
    lost = sets.uids(A)[3]
    node = sets.pods[lost].node
    assert node is not None
    sets.delete(lost)
    sets.intrude("other", node)
    sets.leaders[A] = replace(sets.leaders[A], uid=PodUid("again"), gated=True, node=None)
    leader.settle()
    assert sets.leaders[A].gated
    sets.leave("other")
    leader.settle()
    assert not sets.leaders[A].gated


ACTS = st.sampled_from(("follow", "take over", "intrude", "leave", "lose", "restart"))


def happens(sets: Sets, act: str, gang_id: GangId, number: int) -> None:
    """What users, controllers and nodes do."""
    nodes = [host.name for host in sets.capacity.hosts()]
    node, uids = nodes[number % len(nodes)], sets.uids(gang_id)
    if act == "follow":
        sets.follow(gang_id)
    elif act == "intrude" and not sets.foreign and not sets.capacity.used(node):
        sets.intrude("other", node)
    elif act == "leave" and sets.foreign:
        sets.leave("other")
    elif act == "lose" and uids:
        sets.delete(uids[number % len(uids)])
    elif act == "restart":
        sets.restart(gang_id)


@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 3), min_size=2, max_size=4),
    st.lists(st.sampled_from((2, 4)), min_size=1, max_size=3),
    st.lists(st.tuples(ACTS, st.integers(0, 5), st.booleans()), max_size=12),
)
def test_whatever_happens_each_set_ends_in_a_rack_of_its_own_that_its_leader_chose(
    flies: list[int], sizes: list[int], acts: list[tuple[str, int, bool]]
) -> None:
    """No leader is opened before all places are held in its rack: `write` looks at each opening."""
    sets = Sets(racks(*flies))
    leader = Leader.over(sets)
    names = (A, B, C)[: len(sizes)]
    for gang_id, pods in zip(names, sizes, strict=True):
        sets.ask(gang_id, pods)
    for act, number, rests in acts:
        happens(sets, act, names[number % len(names)], number)
        if act == "take over":
            leader = Leader.over(sets)
        leader.settle() if rests else leader.turn()
    if sets.foreign:
        sets.leave("other")
    for _ in range(3):
        leader.settle()
        for gang_id in names:
            sets.follow(gang_id)
    leader.settle()
    running = [gang_id for gang_id in names if gang_id in sets.chosen]
    for gang_id in running:
        assert {rack_of(node) for node in sets.bound(gang_id).values()} == {sets.chosen[gang_id]}
        assert len(sets.bound(gang_id)) == sets.jobs[gang_id].request.pods
        assert {len(homes) for homes in sets.groups(gang_id).values()} == {1}
    chosen = {*sets.chosen.values()}
    assert len(chosen) == len(running)
    free = [2 * fly for rack, fly in enumerate(flies) if f"r{rack}" not in chosen]
    waiting = [sets.jobs[each].request.pods for each in names if each not in running]
    assert not any(size >= pods for size in free for pods in waiting), "one waits beside room"
