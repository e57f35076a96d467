"""Places for jobs whose parts each need a domain of their own: the nodes with one value of a label.

So do the groups of a LeaderWorkerSet and the Jobs of a JobSet with `exclusive-topology`, and the
subgroups of such a group with `subgroup-exclusive-topology`. Their controllers keep them apart by
pod anti-affinity, from each other and from those of other jobs.

Result: places in which the pods of each part are on nodes with one value of its label, where no
other part and no pod of the kin is; groups are whole. Never certified: which domains are best is
not searched. Or a refusal that counts the domains.

How: domains are matched with parts (`matching`), then each part is placed in its own by the engine,
as pods that select it (`unlike_pods`). A part takes the domain with the fewest free slots that has
room. First this is tried with the domains inside single groups of the tree, those with the fewest
free slots first, so that parts are near each other; where the job has to be inside one group of a
kind, only with what is in each of those. Parts of equal size get their domains in the natural order
of names.

Why it is right. A part of alike pods fits in a domain exactly if the domain's free slots, summed
over those domains of the tree in which a group has to be whole, hold its whole groups beside its
smaller one. Pods that differ, such as a leader that is tied to the node of its volume, and those of
several groups that others have left, are seated one by one (`seat_search`).
A matching finds domains for all parts if there are any. A part of which pods stay has their domain;
one whose pods select a domain fits in no other. Parts with other labels, and pods without a domain
of their own, may not use the nodes of a chosen domain: these are left out last, so that such a job
may be refused that would fit with other domains.

Cost: O(nodes) for values and slots, in each try a matching of parts with domains, and a search of
the engine for each part. 10,000 nodes in racks of 16, processor time: 0.04 s for one part, 0.08 s
for 64, 0.24 s for 256.

Example: racks a (4 nodes free) and b (6), a job of two parts of 4 nodes. The first part gets a, the
second b. With pods of another such job in b it is refused: 2 racks, 1 with other pods, 1 with room.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby, takewhile
from operator import or_
from typing import NamedTuple, Protocol

from topo.gangs.decisions.matching import matched
from topo.gangs.decisions.part_domains import StatedParts, values_of
from topo.gangs.decisions.placed import Placed, kept_host
from topo.gangs.decisions.seat_search import SeatNode, SeatQuestion, Seeker, judge_seats
from topo.gangs.decisions.small_gangs import Budget, seats_for, whole_at
from topo.gangs.decisions.usable_nodes import UsableNodes
from topo.gangs.machine.instructions import Place
from topo.model.ids import GroupPath, NodeName, natural_key
from topo.model.nearest import did_you_mean
from topo.model.words import counted, listed
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import Host
from topo.placement.capacity.other_fabrics import group_of
from topo.placement.job.plan import FitTest, NoFit
from topo.placement.job.request import Eligibility, PlacementMode, Request

MOST_TRIES = 8
"""Choices of domains that are tried: another one helps only pods that select nodes besides."""
MOST_STEPS = 2_000
"""Of the search for seats of a part in one domain; one that it cannot judge counts as able."""


class PlacePods(Protocol):
    """Places pods that select different nodes, or none."""

    def __call__(self, capacity: CapacityView, asked: Place, *, budget: Budget) -> Placed | NoFit:
        """Return places for the wanted pods, or why there are none."""
        ...


_Domain = tuple[str, str]
"""A label and its value."""
_Slots = Mapping[int, int]
"""Free slots by domain of the tier in which groups have to be whole."""
_Runs = tuple[tuple[int, int, Eligibility], ...]
"""Pods by rank: how many, in which group, counted from that of the first one, and on which nodes.

Ranks may lack, as those of pods that have ended.
"""
_MOST_SEATED = 64
"""Pods of a part that are seated one by one; of more it is only known that each kind has nodes."""


class _Size(NamedTuple):
    """Of a part: the label of its domain, and its wanted pods."""

    label: str
    runs: _Runs

    @property
    def pods(self) -> int:
        """How many pods it has."""
        return sum(pods for pods, _, _ in self.runs)

    def kinds(self) -> dict[Eligibility, int]:
        """Return the number of each kind of its pods."""
        return {each: at for at, each in enumerate(dict.fromkeys(each for *_, each in self.runs))}

    def is_counted(self, request: Request) -> bool:
        """Whether the numbers of free slots tell if it fits: alike pods, in whole groups but one.

        Any numbers do where groups may be split.
        """
        if len({each for *_, each in self.runs}) > 1:
            return False
        of_group = Counter[int]()
        for pods, group, _ in self.runs:
            of_group[group] += pods
        smaller = sum(pods < request.pods_per_group for pods in of_group.values())
        return smaller < 2 or request.mode is not PlacementMode.REQUIRED


@dataclass(slots=True)
class _DomainRoom:
    """What a domain has free for a part: `slots`, or where these do not tell all, `seats`.

    `seats` are by domain and by the kinds of pods that may have them; `is_able`: whether there is
    one for each pod, None as long as nobody has asked.
    """

    slots: dict[int, int] = field(default_factory=dict)
    seats: dict[tuple[int, int], int] = field(default_factory=dict)
    free: int = 0
    is_able: bool | None = None


_Rooms = Mapping[Hashable, Mapping[str, _DomainRoom]]
"""By group of the tree that holds them, what domains have by their values of a label."""


@dataclass(frozen=True, slots=True)
class _PartPods:
    """The wanted pods of one part; `value`: the domain that it has, None where it has none yet.

    `size` is equal for parts that may change places.
    """

    number: int
    size: _Size
    value: str | None

    @property
    def label(self) -> str:
        """The label of its domain."""
        return self.size.label

    @property
    def pods(self) -> int:
        """How many pods it has."""
        return self.size.pods


def place_in_own_domains(
    capacity: CapacityView, asked: Place, place_pods: PlacePods, *, budget: Budget
) -> Placed | NoFit:
    """Return places for the wanted pods; `place_pods` places pods that select different nodes."""
    question = _Question(capacity, asked, budget)
    if (unknown := question.unknown_label()) is not None:
        return unknown
    kept = kept_host(capacity, asked)
    stated = kept.gpu_type if kept is not None else asked.request.eligible.gpu_type
    first: NoFit | None = None
    for gpu_type in (capacity.gpu_types() or ("",)) if stated is None else (stated,):
        for number, chosen in enumerate(question.choices(gpu_type)):
            if number == MOST_TRIES:
                budget.is_spent = True
                break
            found = place_pods(capacity, question.narrowed(gpu_type, chosen), budget=budget)
            if isinstance(found, Placed):
                # Other domains were not compared.
                return replace(found, certified=False)
            first = first or found
    return first or question.refusal()


class _Question:
    """One question: its parts, and the domains that other pods are in."""

    def __init__(self, capacity: CapacityView, asked: Place, budget: Budget) -> None:
        self._capacity, self._asked, self._budget = capacity, asked, budget
        request = asked.request
        self._stated = StatedParts(request)
        self._base = [each for pods, each in request.by_rank for _ in range(pods)]
        hosts = capacity.hosts()
        self._values = {label: values_of(hosts, label) for label in self._stated.all_labels()}
        self._kept = [(self._stated.part(rank), node) for rank, node in asked.kept]
        self._parts = tuple(self._wanted())
        there = [each.node for each in asked.occupied] + [node for _, node in asked.kept]
        self._used = {
            (label, values[node])
            for label, values in self._values.items()
            for node in there
            if node in values
        }
        """The domains with pods of other jobs, and with pods that stay."""
        self._ahead = frozenset(
            host.name
            for host in hosts
            if host.labels != host.stated_labels
            and any(
                pair not in host.stated_labels for pair in host.labels if pair[0] in self._values
            )
        )
        """Nodes that are in another domain by the tree than by the label that schedulers see."""
        self._usable = UsableNodes(capacity, request)
        self._known: dict[tuple[_Size, str], _Rooms] = {}
        """The rooms that were counted."""
        self._judged: dict[tuple[_Size, object], bool] = {}
        """Whether a part has seats in domains with such seats: most domains are alike."""

    def _eligible(self, rank: int) -> Eligibility:
        return self._base[rank] if rank < len(self._base) else self._asked.request.eligible

    def _wanted(self) -> Iterator[_PartPods]:
        """Yield the parts with a domain of their own of which pods are wanted."""
        # The first pod of a part, by rank, is the one whose domain the others select.
        stay = {part: node for part, node in reversed(self._kept) if self._capacity.host(node)}
        part = self._stated.part
        by_part = sorted(self._asked.wanted, key=lambda pod: (part(pod.rank), pod.rank))
        for number, pods in groupby(by_part, key=lambda pod: part(pod.rank)):
            if not (label := self._stated.label(number)):
                continue
            runs = self._runs([pod.rank for pod in pods])
            value = self._values[label].get(stay[number]) if number in stay else None
            yield _PartPods(number, _Size(label, runs), value)

    def _runs(self, ranks: Sequence[int]) -> _Runs:
        size = self._asked.request.pods_per_group
        each = ((rank // size - ranks[0] // size, self._eligible(rank)) for rank in ranks)
        return tuple((len([*same]), *of) for of, same in groupby(each))

    def unknown_label(self) -> NoFit | None:
        """Return the refusal of a job that names a label which no node has."""
        missing = next((each.label for each in self._parts if not self._values[each.label]), "")
        if not missing:
            return None
        known = _parting_labels(self._capacity.hosts())
        fix = did_you_mean(missing, known, f"those that part nodes are {listed(known) or 'none'}")
        text = (
            f"no node has the label {missing}, of which parts of the job need a value each; {fix}"
        )
        return self._no_fit(text, 0)

    def choices(self, gpu_type: str) -> Iterator[dict[int, _Domain]]:
        """Yield the domains of the parts in single groups of the tree, then anywhere."""
        fixed = {part.number: (part.label, part.value) for part in self._parts if part.value}
        free = [part for part in self._parts if not part.value]
        if not free:
            yield fixed
            return
        numbers = {size: at for at, size in enumerate(dict.fromkeys(part.size for part in free))}
        size_of = [numbers[part.size] for part in free]
        rooms = {size: self._rooms(size, gpu_type) for size in numbers}
        scopes = Counter[Hashable]()
        for of_size in rooms.values():
            for scope, domains in of_size.items():
                scopes[scope] += sum(room.free for room in domains.values())
        for scope, _ in sorted(scopes.items(), key=lambda each: (each[1], repr(each[0]))):
            able = [
                self._able(of[scope], size) if scope in of else [] for size, of in rooms.items()
            ]
            found = matched([able[at] for at in size_of])
            if found is not None:
                yield fixed | _in_order(free, found)

    def _rooms(self, size: _Size, gpu_type: str) -> _Rooms:
        """Return the free slots of each value of a label, in each group that may hold the job."""
        found = self._known.get((size, gpu_type))
        if found is None:
            found = self._known[size, gpu_type] = self._counted(size, gpu_type)
        return found

    def _counted(self, size: _Size, gpu_type: str) -> _Rooms:
        values, request = self._values[size.label], self._asked.request
        whole = whole_at(self._capacity, request, gpu_type)
        is_counted, asked = size.is_counted(request), (gpu_type, request.gpus_per_pod)
        home, is_within = self._home(), request.within is not None
        rooms: dict[tuple[Hashable, str], _DomainRoom] = {}
        for name, free, kinds, homes, _ in seats_for(
            self._capacity, self._usable, size.kinds(), asked
        ):
            value = values.get(name)
            if value is None or name in self._ahead:
                continue
            key = home(name) if is_within else None, value
            if (room := rooms.get(key)) is None:
                room = rooms[key] = _DomainRoom()
            room.free += free
            at = homes[whole]
            if is_counted:
                room.slots[at] = room.slots.get(at, 0) + free
            else:
                room.seats[at, kinds] = room.seats.get((at, kinds), 0) + free
        return self._by_scope(rooms, values)

    def _by_scope(
        self, rooms: Mapping[tuple[Hashable, str], _DomainRoom], values: Mapping[NodeName, str]
    ) -> _Rooms:
        """Return the rooms by the groups in one of which all parts are looked for.

        They hold all of a domain, or where a kind is asked for, what the group has of it.
        """
        is_within = self._asked.request.within is not None
        shared = {} if is_within else self._shared_paths(values)
        found: dict[Hashable, dict[str, _DomainRoom]] = {}
        for (home, value), room in rooms.items():
            for scope in (home,) if is_within else shared[value]:
                if scope is not None:
                    found.setdefault(scope, {})[value] = room
        return found

    def _home(self) -> Callable[[NodeName], Hashable]:
        """Return what returns the group of a node that the job may have to be inside.

        None for a node outside of it, and where the job need not be in one.
        """
        capacity, kind = self._capacity, self._asked.request.within
        if kind is None:
            return lambda _: None
        kinds = capacity.kinds()
        stay = (capacity.host(node) for _, node in self._kept)
        homes = {group_of(host, kind, kinds) for host in stay if host is not None}

        def home(node: NodeName) -> Hashable:
            host = capacity.host(node)
            found = group_of(host, kind, kinds) if host is not None else None
            return found if not homes or found in homes else None

        return home

    def _shared_paths(self, values: Mapping[NodeName, str]) -> Mapping[str, list[GroupPath]]:
        """Return the groups that hold all nodes of each domain, the whole tree included."""
        capacity = self._capacity
        paths: dict[str, dict[int, GroupPath]] = {}
        for node, value in values.items():
            if (host := capacity.host(node)) is not None:
                paths.setdefault(value, {})[capacity.domain_of(node)] = host.path
        found: dict[str, list[GroupPath]] = {}
        for value, each in paths.items():
            # Nodes of one innermost domain have one path.
            levels = zip(*each.values(), strict=False)
            shared = tuple(level[0] for level in takewhile(lambda x: len({*x}) == 1, levels))
            found[value] = [GroupPath(shared[:depth]) for depth in range(len(shared) + 1)]
        return found

    def _able(self, domains: Mapping[str, _DomainRoom], size: _Size) -> list[_Domain]:
        """Return the domains with room for a part, those with the fewest free slots first."""
        request, pods = self._asked.request, size.pods
        found = [
            (room.free, natural_key(value), value)
            for value, room in domains.items()
            if room.free >= pods
            and (size.label, value) not in self._used
            and (self._seats_all(room, size) if room.seats else _holds(room.slots, pods, request))
        ]
        return [(size.label, value) for *_, value in sorted(found)]

    def _seats_all(self, room: _DomainRoom, size: _Size) -> bool:
        """Return whether a domain may have a seat for each pod of a part, groups whole."""
        if room.is_able is None:
            homes: dict[int, list[tuple[int, int]]] = {}
            for (home, kinds), seats in room.seats.items():
                homes.setdefault(home, []).append((kinds, seats))
            alike = tuple(sorted(tuple(sorted(each)) for each in homes.values()))
            found = self._judged.get((size, alike))
            if found is None:
                found = self._judged[size, alike] = self._can_seat(alike, size)
            room.is_able = found
        return room.is_able

    def _can_seat(self, homes: Sequence[Sequence[tuple[int, int]]], size: _Size) -> bool:
        """Return whether domains with these seats, each with its kinds, may seat a part."""
        request, kinds = self._asked.request, size.kinds()
        able = reduce(or_, (bits for each in homes for bits, _ in each))
        if able != (1 << len(kinds)) - 1:
            return False
        matching_steps = 50 + size.pods * size.pods // 8
        if size.pods > _MOST_SEATED or not self._budget.take(matching_steps):
            self._budget.is_spent = True
            return True
        question = SeatQuestion(
            seekers=[
                Seeker(group, kinds[each]) for pods, group, each in size.runs for _ in range(pods)
            ],
            nodes=[
                SeatNode(NodeName(""), seats, bits, (at,))
                for at, each in enumerate(homes)
                for bits, seats in each
            ],
            whole_at=0,
            is_required=request.mode is PlacementMode.REQUIRED,
        )
        judged = judge_seats(question, most := min(MOST_STEPS, self._budget.left))
        self._budget.spend(judged.steps)
        self._budget.is_spent |= judged.steps >= most
        return judged.is_able

    def narrowed(self, gpu_type: str, chosen: Mapping[int, _Domain]) -> Place:
        """Return the question with pods that select the domains of their parts, and no others."""
        request = self._asked.request
        domains = {*chosen.values()}
        for part, node in self._kept:
            label = self._stated.label(part)
            if label and node in self._values[label]:
                domains.add((label, self._values[label][node]))
        outside = {label: self._nodes_of(domains, label) for label in ("", *self._values)}
        ranks = range(request.pods)
        each = [self._in_domain(rank, chosen, outside) for rank in ranks]
        runs = tuple((len([*same]), eligible) for eligible, same in groupby(each))
        plain = replace(request, by_rank=runs, own_domains=(), kins=())
        return replace(self._asked, request=plain.on_type(gpu_type), occupied=())

    def _nodes_of(self, domains: Collection[_Domain], label: str) -> frozenset[NodeName]:
        """Return the nodes of domains by other labels than this one."""
        return frozenset(
            node
            for other, values in self._values.items()
            if other != label
            for node, value in values.items()
            if (other, value) in domains
        )

    def _in_domain(
        self,
        rank: int,
        chosen: Mapping[int, _Domain],
        outside: Mapping[str, frozenset[NodeName]],
    ) -> Eligibility:
        base, part = self._eligible(rank), self._stated.part(rank)
        if part not in chosen:
            return replace(base, exclude=base.exclude | outside[""])
        domain = chosen[part]
        selector = tuple(sorted({*base.selector, domain}))
        left_out = base.exclude | outside[domain[0]] | self._ahead
        return replace(base, selector=selector, exclude=left_out)

    def refusal(self) -> NoFit:
        """Return the refusal of a job for whose parts there are not enough domains with room."""
        free = [part for part in self._parts if not part.value]
        largest = max(free, key=lambda part: part.pods)
        alike = [part for part in free if part.label == largest.label]
        domains = {*self._values[largest.label].values()}
        used = [value for value in domains if (largest.label, value) in self._used]
        able: list[_Domain] = []
        most = 0
        for gpu_type in self._capacity.types_for(self._asked.request.eligible):
            for rooms in self._rooms(largest.size, gpu_type).values():
                able = max(able, self._able(rooms, largest.size), key=len)
                most = max([most, *(room.free for room in rooms.values())])
        gpus = self._asked.request.gpus_per_pod
        text = (
            f"{counted(len(alike), 'part')} of up to {counted(largest.pods, 'pod')} of {gpus} GPUs"
            f" need a value of {largest.label} each for themselves: of {len(domains)} there"
            f" {'are' if len(used) != 1 else 'is'} {len(used)} with pods of other parts or jobs,"
            f" and {len(able)} with room in whole groups; most free in one: {most * gpus} GPUs"
        )
        return self._no_fit(text, len(able), len(alike))

    def _no_fit(self, text: str, available: int, needed: int = 1) -> NoFit:
        missing = max(0, needed - available)
        numbers = {"needed": needed, "available": available, "missing": missing}
        return NoFit(self._asked.request, FitTest.SPAN, numbers, text)


def _holds(slots: _Slots, pods: int, request: Request) -> bool:
    """Return whether domains with these slots hold so many pods in whole groups; O(domains)."""
    if request.mode is not PlacementMode.REQUIRED:
        return sum(slots.values()) >= pods
    size = request.pods_per_group
    whole, rest = divmod(pods, size)
    groups = sum(free // size for free in slots.values())
    if not rest:
        return groups >= whole
    beside = [free % size < rest for free in slots.values() if free >= rest]
    return bool(beside) and groups - min(beside) >= whole


def _in_order(parts: Sequence[_PartPods], domains: Sequence[_Domain]) -> dict[int, _Domain]:
    """Return the domains by part: parts of one size get theirs in natural order, by rank."""
    of_size: dict[object, list[tuple[_PartPods, _Domain]]] = {}
    for part, domain in zip(parts, domains, strict=True):
        of_size.setdefault(part.size, []).append((part, domain))
    found: dict[int, _Domain] = {}
    for alike in of_size.values():
        ordered = sorted((domain for _, domain in alike), key=lambda each: natural_key(each[1]))
        found |= {part.number: each for (part, _), each in zip(alike, ordered, strict=True)}
    return found


def _parting_labels(hosts: Sequence[Host]) -> list[str]:
    """Return the labels with several values that each have several nodes, fewest values first."""
    values: dict[str, set[str]] = {}
    for host in hosts:
        for key, value in host.stated_labels:
            values.setdefault(key, set()).add(value)
    found = {key: len(each) for key, each in values.items() if 1 < len(each) < len(hosts)}
    return sorted(found, key=lambda key: (found[key], key))
