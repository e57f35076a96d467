"""Worlds small enough to try every place of every pod of a gang: up to eight nodes, six pods.

The vendor's shape: switchboxes of dragonflies of two nodes of eight GPUs. Somebody has GPUs, CPUs,
memory, ports or pods of some nodes; pods of the gang run already, or have places that a hold keeps.
What is left of each node is counted here a second time, one resource after the other.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tests.gangs.test_evicting import asked
from tests.support.capacity import capacity_of, host
from topo.gangs.decisions.check import lost_nodes
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed
from topo.gangs.machine.events import Refused
from topo.gangs.machine.gang import Member
from topo.gangs.machine.instructions import Check, Place
from topo.model.ids import SWITCHBOX, NodeName
from topo.model.pod_requests import Amounts
from topo.placement.booking.holds import HoldId
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.node_room import NodeRoom
from topo.placement.capacity.pod_room import PodRoom
from topo.placement.job.request import Eligibility, PlacementMode, Request

HOLD = HoldId("hold")
PORT = "host port 7777/TCP"
HAS = {"cpu": 64_000, "memory": 512_000, "pods": 6_000}
TAKES: tuple[Amounts, ...] = (
    (),
    (("cpu", 20_000), ("pods", 1_000)),
    (("cpu", 30_000), ("memory", 200_000), ("pods", 1_000)),
    (("cpu", 8_000), (PORT, 1_000), ("pods", 1_000)),
    (("memory", 130_000), ("pods", 1_000)),
)
Places = dict[int, NodeName]
"""Nodes by rank."""


@dataclass(slots=True)
class World:
    """A cluster and a question about a gang; `left`: what each node has for it, GPUs included."""

    capacity: Capacity
    room: NodeRoom
    left: dict[NodeName, dict[str, int]]
    asked: Place
    cordoned: set[NodeName] = field(default_factory=set)

    @property
    def request(self) -> Request:
        """What the gang asks for."""
        return self.asked.request

    def answer(self) -> Placed | Refused:
        """What is planned."""
        wanted, request = self.asked.wanted, self.request
        own = tuple(pod.uid for pod in wanted)
        room = PodRoom(self.room, self.asked.takes, request.gpus_per_pod, own)
        is_asked = bool(self.asked.takes)
        return answer_place(self.capacity, self.asked, [HOLD], room=room if is_asked else None)

    def lost(self, answer: Placed) -> set[NodeName]:
        """The nodes that a check of the answer names, before any gate is opened."""
        wanted, request = self.asked.wanted, self.request
        waiting = (*zip(wanted, answer.nodes, strict=True), *self.asked.held)
        held = {pod.rank for pod, _ in self.asked.held}
        check = Check(
            id=self.asked.id,
            ask=2,
            request=request,
            waiting=waiting,
            bound=tuple(each for each in self.asked.kept if each[0] not in held),
            holds=(HOLD,),
            takes=self.asked.takes,
        )
        own = tuple(pod.uid for pod, _ in waiting)
        room = PodRoom(self.room, self.asked.takes, request.gpus_per_pod, own)
        return {node for node, _ in lost_nodes(self.capacity, check, [HOLD], room)}

    # A second count

    def all_places(self, answer: Placed) -> Places:
        """The nodes of all pods once the answer is carried out."""
        new = {pod.rank: at for pod, at in zip(self.asked.wanted, answer.nodes, strict=True)}
        return dict(self.asked.kept) | new

    def faults(self, answer: Placed) -> list[str]:
        """Why the pods cannot all be bound where they are planned, or are not together."""
        left = {node: dict(each) for node, each in self.left.items()}
        held = {pod.rank: node for pod, node in self.asked.held}
        found = [f"{node} is closed" for node in held.values() if node in self.cordoned]
        for pod, node in zip(self.asked.wanted, answer.nodes, strict=True):
            if not self.is_allowed(pod.rank, node):
                found.append(f"rank {pod.rank} may not be on {node}")
            self.take(left[node])
            found += [f"{node}: {name} {rest}" for name, rest in left[node].items() if rest < 0]
        places = self.all_places(answer)
        if not self.is_together(places):
            found.append(f"apart: {places}")
        return found

    def is_allowed(self, rank: int, node: NodeName) -> bool:
        """Whether the pod may use the node at all."""
        known, wish = self.capacity.host(node), self.request.eligible_of(rank)
        assert known is not None
        has_labels = {*wish.selector} <= {*known.labels}
        is_out = node in wish.exclude or node in self.asked.without or node in self.cordoned
        return has_labels and not is_out

    def take(self, left: dict[str, int]) -> None:
        """One pod more is on a node."""
        left["gpus"] -= self.request.gpus_per_pod
        for resource, amount in self.asked.takes:
            left[resource] -= amount

    def homes(self, places: Places) -> dict[int, set[str]]:
        """The dragonflies of each group, or switchboxes for groups that are larger than those."""
        size = self.request.pods_per_group
        depth = 2 if size * self.request.gpus_per_pod <= 16 else 1
        found: dict[int, set[str]] = {}
        for rank, node in places.items():
            found.setdefault(rank // size, set()).add("/".join(self.path(node)[:depth]))
        return found

    def path(self, node: NodeName) -> tuple[str, ...]:
        """The switchbox and the dragonfly of a node."""
        known = self.capacity.host(node)
        assert known is not None
        return tuple(known.path)

    def is_together(self, places: Places) -> bool:
        """Whether groups are whole, all pods on one GPU type and inside the required kind."""
        hosts = [found for node in places.values() if (found := self.capacity.host(node))]
        types, boxes = {each.gpu_type for each in hosts}, {each.path[0] for each in hosts}
        is_whole = all(len(each) == 1 for each in self.homes(places).values())
        is_inside = self.request.within is None or len(boxes) == 1
        is_required = self.request.mode is PlacementMode.REQUIRED
        return len(types) == 1 and is_inside and (is_whole or not is_required)

    def every_way(self) -> Iterator[Places]:
        """Yield every way to place the wanted pods, as the places of all."""
        left = {node: dict(each) for node, each in self.left.items()}
        yield from self._ways(dict(self.asked.kept), self.asked.wanted, left)

    def _ways(
        self, places: Places, wanted: Sequence[Member], left: dict[NodeName, dict[str, int]]
    ) -> Iterator[Places]:
        if not wanted:
            yield places
            return
        rank = wanted[0].rank
        for node, before in left.items():
            there, further = dict(before), places | {rank: node}
            self.take(there)
            has_room = min(there.values()) >= 0 and self.is_allowed(rank, node)
            if has_room and self.is_together(further):
                yield from self._ways(further, wanted[1:], left | {node: there})

    def cost(self, places: Places) -> tuple[int, int, int]:
        """The groups that are split, the switchboxes and the dragonflies."""
        split = sum(len(each) > 1 for each in self.homes(places).values())
        paths = [self.path(node) for node in places.values()]
        return split, len({path[0] for path in paths}), len({*paths})


def world(seed: int) -> World:
    """A world of its own for each seed."""
    rng = random.Random(seed)
    capacity = _nodes(rng)
    request = _request(rng, [each.name for each in capacity.hosts()])
    made = World(capacity, NodeRoom(), {}, asked(request.pods, request=request, over=None))
    capacity.limit_by(made.room)
    made.asked = replace(made.asked, takes=rng.choice(TAKES), replaced=(HOLD,))
    for each in capacity.hosts():
        made.room.set_node(each.name, HAS, 8)
        made.left[each.name] = {"gpus": 8, PORT: 1_000, **HAS}
    if rng.random() < 0.6:
        _begin(made, rng)
    for node in made.left:
        if rng.random() < 0.4:
            _intrude(made, node, rng)
    return made


def _nodes(rng: random.Random) -> Capacity:
    types = rng.choice(["A", "A", "AB"])
    hosts = []
    for box in range(rng.randint(1, 2)):
        for fly in range(rng.randint(1, 2)):
            gpu_type = rng.choice(types)
            rack = (("rack", rng.choice("xy")),)
            path = (f"s{box}", f"d{box}-{fly}")
            hosts += [
                host(f"n{box}-{fly}-{at}", path, labels=rack, gpu_type=gpu_type) for at in (1, 2)
            ]
    return capacity_of(hosts)


def _request(rng: random.Random, names: Sequence[NodeName]) -> Request:
    gpus = rng.choice((4, 4, 8))
    size = rng.choice((8, 16, 16, 32))
    pods = rng.randint(2, 6 if gpus == 4 else 4)
    runs = tuple((1, _eligible(rng, names)) for _ in range(pods)) if rng.random() < 0.6 else ()
    return Request(
        pods=pods,
        gpus_per_pod=gpus,
        group_size=max(size, gpus),
        mode=rng.choice([PlacementMode.REQUIRED] * 3 + [PlacementMode.PREFERRED]),
        within=SWITCHBOX if rng.random() < 0.2 else None,
        by_rank=runs,
    )


def _eligible(rng: random.Random, names: Sequence[NodeName]) -> Eligibility:
    kind = rng.choice(("any", "any", "rack", "few"))
    if kind == "any":
        return Eligibility()
    if kind == "rack":
        return Eligibility(selector=(("rack", rng.choice("xy")),))
    few = {*rng.sample(names, rng.randint(1, min(3, len(names))))}
    return Eligibility(exclude=frozenset({*names} - few))


def _begin(made: World, rng: random.Random) -> None:
    """Some of the gang's pods run somewhere, or have places that its hold keeps for them."""
    ways = made.every_way()
    places = next((each for number, each in enumerate(ways) if number == rng.randint(0, 40)), None)
    places = places or next(made.every_way(), None)
    if places is None:
        return
    pods = {pod.rank: pod for pod in made.asked.wanted}
    stay = rng.sample(sorted(pods), rng.randint(1, len(pods) - 1))
    held = [(pods[rank], places[rank]) for rank in stay if rng.random() < 0.5]
    at_hold: dict[NodeName, int] = {}
    gpus = made.request.gpus_per_pod
    for rank in stay:
        node = places[rank]
        made.take(made.left[node])
        if (pods[rank], node) in held:
            at_hold[node] = at_hold.get(node, 0) + gpus
        else:
            made.capacity.book(f"pod-{rank}", {node: gpus})
            made.room.set_pod(f"runs-{rank}", node, made.asked.takes)
    if at_hold:
        made.capacity.book(HOLD, at_hold)
    made.asked = replace(
        made.asked,
        wanted=tuple(pod for rank, pod in pods.items() if rank not in stay),
        kept=tuple((rank, places[rank]) for rank in sorted(stay)),
        held=tuple(held),
    )


def intrude(made: World, rng: random.Random) -> None:
    """Somebody takes a part of what is left of each node, or closes it."""
    for node in made.left:
        _intrude(made, node, rng)


def _intrude(made: World, node: NodeName, rng: random.Random) -> None:
    left, kind = made.left[node], rng.choice(("gpus", "cpu", "memory", PORT, "pods", "closed"))
    if kind == "closed":
        # A place on a closed node is kept by nobody.
        if node not in dict(made.asked.kept).values():
            known = made.capacity.host(node)
            assert known is not None
            made.capacity.upsert(replace(known, cordoned=True))
            made.cordoned.add(node)
    elif kind == "gpus":
        gpus = rng.randint(0, left["gpus"] // 4) * 4
        left["gpus"] -= gpus
        made.capacity.book(f"on-{node}-{left['gpus']}", {node: gpus})
    else:
        amount = 1_000 if kind == PORT else rng.randint(0, left[kind] // 1_000) * 1_000
        if amount <= left[kind]:
            left[kind] -= amount
            made.room.set_pod(f"{kind}-on-{node}-{left[kind]}", node, ((kind, amount),))
