"""A model of one gang small enough to try every order of what can happen.

Two leaders write: the second takes over at any moment, and whatever the first had sent by then
lands at any later one, or as a conflict. A scheduler binds, a foreign pod takes a node once and
leaves once. Each leader is the real machine; each step is one write, one look, one cycle. Time
passes where nothing is under way.
"""

import pickle
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from topo.gangs.machine.events import (
    CapacityChanged,
    Checked,
    Event,
    Leading,
    Observed,
    Planned,
    Refused,
    WriteRefused,
)
from topo.gangs.machine.gang import Binding, Gang, GangId, Member, PodUid, Selection
from topo.gangs.machine.gangs import Gangs
from topo.gangs.machine.instructions import (
    Check,
    Instruction,
    LabelNodes,
    Nominate,
    Open,
    Place,
    Release,
    ReportStatus,
    UnlabelNodes,
)
from topo.gangs.machine.settings import GangSettings
from topo.model.ids import NodeName
from topo.placement.booking.holds import HoldId
from topo.placement.job.request import PlacementMode, Request

GANG = GangId("g")
_VERSION, _HOLD = re.compile(r"version='(\d+)'"), re.compile(r"hold-(\d+)")
_UNTIL = re.compile(r"until_s=([\d.]+)")


@dataclass(frozen=True, slots=True)
class Setting:
    """The gang and the dragonflies of two nodes there are; `takes`: where a foreign pod may go.

    `second`: whether another leader may take over. `any_order`: what a leader sent may land in
    every order. Else it lands as it was sent, and of a dead leader's writes each lands or is lost.
    """

    pods: int
    dragonflies: int
    binding: Binding
    takes: tuple[int, ...] = ()
    second: bool = True
    any_order: bool = False
    over: bool = False
    """Whether the foreign pod has a lower priority: the gang may be planned over it, and its
    scheduler evicts it."""

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """n0 and n1 are the first dragonfly, n2 and n3 the second."""
        return tuple(NodeName(f"n{number}") for number in range(2 * self.dragonflies))

    @property
    def request(self) -> Request:
        """Groups of two pods that each fill a dragonfly."""
        return Request(pods=self.pods, gpus_per_pod=8, group_size=16)


@dataclass(frozen=True, slots=True)
class Writer:
    """A leader: its machine as bytes, and what it has sent that has not landed."""

    machine: bytes
    shown: str
    sent: tuple[Instruction, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """All that there is at one moment. `foreign`: the node taken; `took`: whether one came."""

    members: tuple[Member, ...]
    labels: tuple[tuple[NodeName, Selection], ...] = ()
    holds: tuple[tuple[HoldId, tuple[NodeName, ...]], ...] = ()
    made: int = 0
    version: int = 0
    foreign: NodeName | None = None
    took: bool = False
    left: bool = False
    leader: Writer | None = None
    late: tuple[Instruction, ...] = ()
    took_over: bool = False
    now_s: float = 0.0

    @property
    def key(self) -> str:
        """Equal for states from which the same can happen: numbers count by their order alone."""
        text = repr(
            (
                self.members,
                self.labels,
                self.holds,
                (self.foreign, self.took, self.left, self.took_over),
                self.leader and (self.leader.shown, self.leader.sent),
                self.late,
            )
        )
        text = _UNTIL.sub(lambda found: f"until {float(found.group(1)) - self.now_s}", text)
        return _by_order(_HOLD, _by_order(_VERSION, text))


def _by_order(pattern: re.Pattern[str], text: str) -> str:
    numbers = sorted({int(each) for each in pattern.findall(text)})
    order = {number: at for at, number in enumerate(numbers)}
    return pattern.sub(lambda found: f"#{order[int(found.group(1))]}", text)


class Model:
    """The steps from a state to all that can follow it."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def start(self) -> State:
        """All pods are there, gated, and nobody leads yet."""
        members = tuple(
            Member(uid=PodUid(f"p{rank}"), name=f"p{rank}", rank=rank, version="0", gated=True)
            for rank in range(self.setting.pods)
        )
        return self._lead(State(members))

    def following(self, state: State) -> Iterator[tuple[str, State]]:
        """Every step that may come next, by a name."""
        assert state.leader is not None
        yield "look", self._look(state)
        for at, write in self._next(state.leader.sent):
            rest = state.leader.sent[:at] + state.leader.sent[at + 1 :]
            sent = replace(state, leader=replace(state.leader, sent=rest))
            after, lost = self._write(sent, write)
            yield f"write {_named(write)}", self._tell(after, lost) if lost else after
        for at, write in self._next(state.late):
            landed = replace(state, late=state.late[:at] + state.late[at + 1 :])
            yield f"late {_named(write)}", self._write(landed, write)[0]
            yield f"never {_named(write)}", landed
        yield from self._scheduled(state)
        if not (state.late or state.leader.sent):
            yield "wait", self._look(replace(state, now_s=state.now_s + 100.0))
        if self.setting.second and not state.took_over:
            late = tuple(each for each in state.leader.sent if not isinstance(each, Release))
            yield "take over", self._lead(replace(state, late=late, took_over=True))
        if not state.took:
            for number in self.setting.takes:
                node = self.setting.nodes[number]
                if self._free(state, node):
                    yield f"taken {node}", replace(state, foreign=node, took=True)
        elif not state.left:
            yield "freed", replace(state, foreign=None, left=True)

    def _next(self, writes: tuple[Instruction, ...]) -> list[tuple[int, Instruction]]:
        return list(enumerate(writes))[: None if self.setting.any_order else 1]

    # What must hold

    def judge(self, state: State) -> None:
        """No group is split, no node is taken twice."""
        homes: dict[int, set[int]] = {}
        taken = [state.foreign] if state.foreign else []
        for member in state.members:
            if member.node is not None:
                homes.setdefault(member.rank // 2, set()).add(self._dragonfly(member.node))
                taken.append(member.node)
        assert all(len(each) == 1 for each in homes.values()), f"a group is split: {homes}"
        assert len(set(taken)) == len(taken), f"a node is taken twice: {taken}"

    def judge_rest(self, state: State) -> None:
        """Where nothing follows but a foreign pod's coming and going, it is not our fault."""
        waiting = [member for member in state.members if member.node is None]
        if waiting:
            assert state.foreign is not None, "a gang waits although all is free"
            opened = any(not member.gated for member in state.members)
            assert opened or not self.setting.over, "it waits although it may have others evicted"
            bound = [member for member in state.members if member.node is not None]
            assert bound or self._planned(state, ()) is None, "a gang waits although it fits"
        assert waiting or not state.holds, "a hold is left of a gang that runs"

    # What happens

    def _lead(self, state: State) -> State:
        machine = Gangs(GangSettings(preempt_s=50.0 if self.setting.over else None))
        return self._advance(state, machine, (self._seen(state), Leading()))

    def _look(self, state: State) -> State:
        return self._tell(
            state, self._seen(state), CapacityChanged(self.setting.nodes, requeue_all=True)
        )

    def _tell(self, state: State, *events: Event) -> State:
        assert state.leader is not None
        machine: Gangs = pickle.loads(state.leader.machine)  # noqa: S301 - our own bytes
        return self._advance(state, machine, events)

    def _advance(self, state: State, machine: Gangs, events: tuple[Event, ...]) -> State:
        """Tells the machine, answers what it asks at once; what it writes is sent."""
        sent = (
            list(state.leader.sent) if state.leader is not None and machine.state().leading else []
        )
        pending = list(events)
        while pending:
            out = machine.advance(state.now_s, *pending)
            machine.validate()
            pending = []
            for each in out:
                if isinstance(each, Place):
                    state, answer = self._place(state, each)
                    pending.append(answer)
                elif isinstance(each, Check):
                    pending.append(self._check(state, each))
                elif isinstance(each, Release):
                    holds = tuple(held for held in state.holds if held[0] != each.hold)
                    state = replace(state, holds=holds)
                elif not isinstance(each, ReportStatus):
                    sent.append(each)
        writer = Writer(pickle.dumps(machine), repr(machine.state()), tuple(sent))
        return replace(state, leader=writer)

    def _seen(self, state: State) -> Observed:
        setting = self.setting
        gang = Gang(
            id=GANG,
            namespace="jobs",
            name="g",
            kind="Job",
            binding=setting.binding,
            request=setting.request,
            at_least=setting.pods,
            priority=0,
            created_s=0.0,
            members=state.members,
            preempts=self.setting.over,
            labelled=dict(state.labels),
            holds={hold: Counter(nodes) for hold, nodes in state.holds},
        )
        return Observed(gang)

    def _place(self, state: State, asked: Place) -> tuple[State, Planned | Refused]:
        ranks = tuple(pod.rank for pod in asked.wanted)
        nodes = self._planned(state, asked.kept, ranks)
        if nodes is None and asked.over is not None and not asked.kept:
            return self._place_over(state, asked, ranks)
        if nodes is None or asked.request.mode is not PlacementMode.REQUIRED:
            return state, Refused(id=GANG, ask=asked.ask, text="no room", shortfall={})
        hold = HoldId(f"hold-{state.made}")
        holds = tuple(held for held in state.holds if held[0] not in asked.replaced)
        held = (hold, (*nodes, *(node for _, node in asked.held)))
        state = replace(state, holds=(*holds, held), made=state.made + 1)
        planned = Planned(
            id=GANG,
            ask=asked.ask,
            nodes=nodes,
            hold=hold,
            mode=PlacementMode.REQUIRED,
            generation=1,
            certified=True,
        )
        return state, planned

    def _place_over(
        self, state: State, asked: Place, ranks: tuple[int, ...]
    ) -> tuple[State, Planned | Refused]:
        """The same without the foreign pod; nothing is held."""
        nodes = self._planned(replace(state, foreign=None), (), ranks)
        state = replace(state, made=state.made + 1)
        holds = tuple(held for held in state.holds if held[0] not in asked.replaced)
        if nodes is None or (asked.mixed and len({self._dragonfly(n) for n in nodes}) > 1):
            return state, Refused(id=GANG, ask=asked.ask, text="no room", shortfall={})
        planned = Planned(
            id=GANG,
            ask=asked.ask,
            nodes=nodes,
            hold=HoldId(f"hold-{state.made}"),
            mode=PlacementMode.REQUIRED,
            generation=1,
            certified=False,
            evicts="the foreign pod",
        )
        return replace(state, holds=holds, made=state.made + 1), planned

    def _planned(
        self,
        state: State,
        kept: tuple[tuple[int, NodeName], ...],
        wanted: tuple[int, ...] | None = None,
    ) -> tuple[NodeName, ...] | None:
        """Each group into the dragonfly of its pods that stay, else into the first free one."""
        free = [node for node in self.setting.nodes if self._free(state, node)]
        free = [node for node in free if node not in {at for _, at in kept}]
        homes = {rank // 2: self._dragonfly(node) for rank, node in kept}
        found: list[NodeName] = []
        ranks = range(self.setting.pods) if wanted is None else wanted
        for rank in ranks:
            group = rank // 2
            size = sum(other // 2 == group for other in ranks)
            if group not in homes:
                taken = set(homes.values())
                options = (d for d in range(self.setting.dragonflies) if d not in taken)
                room = (d for d in options if sum(self._dragonfly(n) == d for n in free) >= size)
                homes[group] = next(room, -1)
            node = next((n for n in free if self._dragonfly(n) == homes[group]), None)
            if node is None:
                return None
            free.remove(node)
            found.append(node)
        return tuple(found)

    def _check(self, state: State, check: Check) -> Checked:
        seen = state if check.over is None else replace(state, foreign=None)
        nodes = [node for _, node in check.waiting]
        full = (n for n in dict.fromkeys(nodes) if not self._free(seen, n) or nodes.count(n) > 1)
        lost = tuple((node, "taken") for node in full)
        homes: dict[int, set[int]] = {}
        for rank, node in (*((pod.rank, node) for pod, node in check.waiting), *check.bound):
            homes.setdefault(rank // 2, set()).add(self._dragonfly(node))
        split = tuple(group for group, each in homes.items() if len(each) > 1)
        return Checked(GANG, check.ask, lost, "", split)

    def _write(self, state: State, write: Instruction) -> tuple[State, WriteRefused | None]:
        labels = dict(state.labels)
        match write:
            case LabelNodes(_, nodes):
                labels.update(nodes)
            case UnlabelNodes(_, nodes):
                labels = {node: value for node, value in labels.items() if node not in nodes}
            case Nominate(_, pod, note, node):
                return self._patch(state, pod.rank, pod.version, nominated=node, note=note)
            case Open(_, pod, note):
                member = state.members[pod.rank]
                if member.version == pod.version:
                    evicts = note.over and self.setting.binding.is_together
                    nominee = None if evicts else note.node
                    assert member.nominated == nominee, "opened before it is nominated"
                    # A nomination that a later leader took back leaves its note.
                    unseen = [m.uid for m in state.members if m.gated and m.note is None]
                    assert not unseen, f"opened before {unseen} are nominated"
                selection = note.selection
                return self._patch(state, pod.rank, pod.version, gated=False, selection=selection)
        return replace(state, labels=tuple(sorted(labels.items()))), None

    def _patch(
        self, state: State, rank: int, version: str, **fields: object
    ) -> tuple[State, WriteRefused | None]:
        member = state.members[rank]
        if member.version != version or member.node is not None:
            return state, WriteRefused(GANG, member.uid, "conflict", version)
        return self._changed(state, rank, **fields), None

    def _changed(self, state: State, rank: int, **fields: object) -> State:
        version = state.version + 1
        member = replace(state.members[rank], version=str(version), **fields)  # type: ignore[arg-type]
        members = (*state.members[:rank], member, *state.members[rank + 1 :])
        return replace(state, members=members, version=version)

    def _scheduled(self, state: State) -> Iterator[tuple[str, State]]:
        waiting = [member for member in state.members if member.opened]
        if not waiting:
            return
        selected = {node for member in waiting for node in self._selected(state, member)}
        whole = self.setting.binding is Binding.WHOLE
        is_kept = whole and any(member.nominated for member in waiting)  # so Volcano evicts nobody
        if self.setting.over and state.foreign in selected and not is_kept:
            yield "bind over others", replace(state, foreign=None, left=True)
        if self.setting.binding is Binding.POD_GROUP and any(m.gated for m in state.members):
            return
        if self.setting.binding is Binding.PIECEMEAL:
            for member in waiting:
                yield f"try {member.uid}", self._try(state, member)
            return
        taken = self._seats(state, waiting)
        if len(taken) < len(waiting):
            if self.setting.binding is Binding.POD_GROUP:
                yield "try", self._cleared(state, taken)
            return
        bound = sum(member.node is not None for member in state.members)
        if bound + len(taken) < self.setting.pods:
            return
        for rank, node in taken.items():
            state = self._changed(state, rank, node=node, nominated=None)
        yield "bind", state

    def _seats(self, state: State, waiting: list[Member]) -> dict[int, NodeName]:
        """A free node for each of these pods that can have one, by rank."""
        taken: dict[int, NodeName] = {}
        for member in waiting:
            places = self._selected(state, member)
            room = (n for n in places if self._free(state, n) and n not in taken.values())
            if (node := next(room, None)) is not None:
                taken[member.rank] = node
        return taken

    def _cleared(self, state: State, ranks: Iterable[int]) -> State:
        """Pods of a PodGroup that would fit lose their nominations where another does not."""
        for rank in ranks:
            if state.members[rank].nominated is not None:
                state = self._changed(state, rank, nominated=None)
        return state

    def _try(self, state: State, member: Member) -> State:
        """An attempt at one pod: nominations of others are respected, a failed one is cleared."""
        others = {m.nominated for m in state.members if m.uid != member.uid and m.node is None}
        for node in self._selected(state, member):
            if self._free(state, node) and node not in others:
                return self._changed(state, member.rank, node=node, nominated=None)
        if member.nominated is None:
            return state
        return self._changed(state, member.rank, nominated=None)

    def _selected(self, state: State, member: Member) -> list[NodeName]:
        nodes = [node for node, value in state.labels if value == member.selection]
        return sorted(nodes, key=lambda node: (node != member.nominated, node))

    def _free(self, state: State, node: NodeName) -> bool:
        return node != state.foreign and all(node != member.node for member in state.members)

    def _dragonfly(self, node: NodeName) -> int:
        return int(node[1:]) // 2


def _named(write: Instruction) -> str:
    pod = getattr(write, "pod", None)
    return f"{type(write).__name__} {pod.uid if pod is not None else ''}".strip()
