"""Placement for gangs: finds nodes and holds them, and checks whether a plan is still valid.

Runs on the event loop without awaiting, so no other booking happens between a search and its hold.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from master.booking.state import BookingState
from master.controllers.nomination.sources import Reservations
from topo.gangs.decisions.by_links import Worth
from topo.gangs.decisions.check import apart_groups, lost_nodes, settled_groups, split_groups
from topo.gangs.decisions.eviction import Evictable
from topo.gangs.decisions.part_domains import nodes_kept_apart
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed
from topo.gangs.hold_claims import gang_key, gang_of_hold
from topo.gangs.machine.events import Checked, Planned, Refused
from topo.gangs.machine.gang import Gang, GangId, HeldPlaces, Member
from topo.gangs.machine.instructions import Check, Occupied, Place
from topo.model.ids import Kind, NodeName
from topo.model.words import counted, listed
from topo.placement.booking.events import HoldAsked, HoldChange, HoldReleased, Pod, PodGone
from topo.placement.booking.holds import Hold, HoldId, HoldRefused, HoldRequest
from topo.placement.capacity.node_room import Held
from topo.placement.capacity.pod_room import PodRoom
from topo.placement.job.request import Kin, Request

Links = Callable[[NodeName, int], float]
Excess = Callable[[GangId, Iterable[Member], int, Iterable[HoldId]], Callable[[str], str]]
"""Returns what says why members, of so many GPUs, may not be held in place of these holds."""
OccupiedBy = Callable[[Kin, GangId], Iterable[Occupied]]
"""Where the pods of a kin are, but for those of one gang."""
HOLD_S = 3600.0
"""Opened pods have their GPUs without the hold, so it need not outlast a long queue."""


class PlacementAnswers:
    """Places gangs on the capacity of one master. `max_hold_s`: the longest time of a hold.

    `reservations`: what was booked for gangs before their pods were there. `links` returns what a
    node is worth to a pod of so many GPUs by the links between them.
    """

    def __init__(
        self,
        state: BookingState,
        max_hold_s: float,
        reservations: Reservations | None = None,
        links: Links | None = None,
    ) -> None:
        self._state, self._reservations, self._links = state, reservations, links
        self._hold_s = min(HOLD_S, max_hold_s)
        self._holds: dict[GangId, HeldPlaces] = {}
        self._holds_version = -1
        """The version of the bookings of which `_holds` is."""
        self.occupied: OccupiedBy = _nowhere
        """Returns where the pods of a kin are."""
        self.excess: Excess = _no_excess
        """Returns why the namespace of a gang may not keep places for pods that are not there."""
        self.known: Mapping[GangId, Gang] = {}
        """The gangs as read last: what the pods of their holds take beside GPUs."""

    def kind_of_tier(self, tier: int) -> Kind | None:
        """Return the kind of group that a Volcano tier number stands for."""
        kinds = self._state.capacity.kinds()
        return next((Kind(kind) for kind, at in kinds.items() if at == tier), None)

    def tier_of_kind(self, kind: Kind) -> int | None:
        """Return the tier of a kind of group; None if no group is of this kind."""
        return self._state.capacity.kinds().get(kind)

    def gangs_with_holds(self) -> tuple[GangId, ...]:
        """Return the gangs for which holds were made."""
        return tuple(self._by_gang())

    def holds_of(self, gang_id: GangId) -> HeldPlaces:
        """Return the holds that were made for a gang; O(holds) after a change, else O(1)."""
        return self._by_gang().get(gang_id, {})

    def _by_gang(self) -> dict[GangId, HeldPlaces]:
        if self._holds_version != self._state.version:
            found: dict[GangId, dict[HoldId, Mapping[NodeName, int]]] = {}
            for hold in self._state.holds():
                if (gang := gang_of_hold(hold)) is not None:
                    # A hold books the same places to its end.
                    known = self._holds.get(gang, {}).get(hold.id)
                    found.setdefault(gang, {})[hold.id] = hold.places if known is None else known
            self._holds, self._holds_version = {**found}, self._state.version
        return self._holds

    def place(
        self, asked: Place, evictable: Callable[[], Sequence[Evictable]]
    ) -> Planned | Refused:
        """Return nodes for the wanted pods, and hold them; or why there are none.

        `evictable` is called if pods of lower priority may be evicted for the gang.
        """
        capacity = self._state.capacity
        # A hold that was made since the gang was read is replaced like those before it.
        own = dict.fromkeys((*asked.replaced, *self.holds_of(asked.id)))
        asked = replace(asked, replaced=tuple(own))
        if asked.request.kins:
            kept, there = self._kept_from(asked), self._occupied(asked.id, asked.request)
            asked = replace(asked, occupied=tuple(there), without=kept)
        # A scheduler may have bound one since the master read the gang: that pod keeps its GPUs.
        before = self._state.bookings.unbound_pods(pod.uid for pod in asked.wanted)
        owners = [*(pod.owner for pod in before), *asked.replaced]
        room = self._room(asked, asked.wanted, asked.replaced)
        found = self._where_booked(asked, owners, room) or answer_place(
            capacity, asked, owners, evictable, room=room, worth=self._worth(asked)
        )
        if isinstance(found, Placed) and not found.evicted:
            found = self._within_budget(asked, found, owners, room)
        if isinstance(found, Refused):
            return found
        held = (
            self._hold_nodes(asked, found, before)
            if not found.evicted
            else self._begin_unbooked_plan(asked)
        )
        if isinstance(held, HoldRefused):
            text = f"{held.refusal.what}; {held.refusal.fix}"
            return Refused(id=asked.id, ask=asked.ask, text=text, shortfall={})
        if self._reservations is not None:
            self._reservations.note_taken(asked.replaced)
        return Planned(
            id=asked.id,
            ask=asked.ask,
            nodes=found.nodes,
            hold=held,
            mode=found.mode,
            generation=self._state.generation,
            certified=found.certified,
            inside=found.inside(capacity),
            evicts=_describe(found.evicted),
        )

    def _within_budget(
        self, asked: Place, found: Placed, owners: Sequence[str], room: PodRoom | None
    ) -> Placed | Refused:
        """Return places that the gang's namespace may keep, of another type of GPUs if need be."""
        held = (*asked.wanted, *(member for member, _ in asked.held))
        excess = self.excess(asked.id, held, asked.request.gpus_per_pod, asked.replaced)
        if not (why := excess(found.gpu_type)):
            return found
        capacity = self._state.capacity
        for gpu_type in capacity.types_for(asked.request.eligible):
            if gpu_type == found.gpu_type or excess(gpu_type):
                continue
            of_type = replace(asked, request=asked.request.on_type(gpu_type))
            other = answer_place(capacity, of_type, owners, room=room)
            if isinstance(other, Placed):
                return other
        return Refused(id=asked.id, ask=asked.ask, text=why, shortfall={})

    def _room(
        self,
        asked: Place | Check,
        pods: Iterable[Member],
        holds: Collection[HoldId],
        on: Collection[NodeName] | None = None,
    ) -> PodRoom | None:
        """Return the room for these pods, without them and their holds; None if it is not asked.

        `on`: only these nodes are looked at; None: all.
        """
        if not asked.takes:
            return None
        return PodRoom(
            self._state.room,
            asked.takes,
            asked.request.gpus_per_pod,
            own=tuple(pod.uid for pod in pods),
            held=tuple(self._held(holds, on)),
        )

    def _occupied(self, but: GangId, request: Request) -> Iterator[Occupied]:
        """Yield where pods are that keep out those of a request, or that these keep out."""
        for kin in request.kins:
            keeps_all_out = kin == request.kins[0] and bool(request.own_domains)
            there = chain(self.occupied(kin, but), self._held_by(kin, but))
            yield from (each for each in there if each.label or keeps_all_out)

    def _held_by(self, kin: Kin, but: GangId) -> Iterator[Occupied]:
        """Yield where pods of the kin will be by the holds of other gangs."""
        for gang_id, holds in self._by_gang().items():
            gang = self.known.get(gang_id)
            if gang_id == but or gang is None or kin not in gang.request.kins:
                continue
            own = gang.request.own_domains if kin == gang.request.kins[0] else ()
            labels = {run.label for run in own} or {""}
            awaited = chain.from_iterable(self._awaited_pods(gang, hold) for hold in holds)
            for node in (node for node, pods in awaited if pods):
                yield from (Occupied(node, label) for label in labels)

    def _kept_from(self, asked: Place) -> tuple[NodeName, ...]:
        """Return the nodes that are kept for others, with their domains where one waits for those.

        The first in the queue is not delayed then by ever new pods of its kin beside its nodes.
        """
        waiting = (
            gang.request.own_domains
            for gang_id, gang in self.known.items()
            if gang_id != asked.id
            and {*gang.request.kins[:1]} & {*asked.request.kins}
            and not self.holds_of(gang_id)
        )
        labels = {run.label for runs in waiting for run in runs}
        kept = [Occupied(node, label) for node in asked.without for label in labels]
        return tuple(dict.fromkeys((*asked.without, *nodes_kept_apart(self._state.capacity, kept))))

    def _worth(self, asked: Place) -> Worth | None:
        """Return what nodes are worth to a pod that gets its node by links; None for any other."""
        gang, links = self.known.get(asked.id), self._links
        if links is None or gang is None or not gang.by_links:
            return None
        return lambda node: links(node, asked.request.gpus_per_pod)

    def _where_booked(
        self, asked: Place, owners: Sequence[str], room: PodRoom | None
    ) -> Placed | None:
        """Return places on the nodes that a request booked; None where it booked none, or too few.

        Nodes that are kept for the head of the queue are booked longer than that. O(nodes).
        """
        booked = self._reservations.nodes(asked.replaced) if self._reservations is not None else ()
        if not booked:
            return None
        capacity = self._state.capacity
        others = tuple(host.name for host in capacity.hosts() if host.name not in booked)
        on_booked = replace(asked, without=others, reserve=False, over=None)
        found = answer_place(capacity, on_booked, owners, room=room)
        return found if isinstance(found, Placed) else None

    def _held(
        self, replaced: Collection[HoldId], on: Collection[NodeName] | None = None
    ) -> Iterator[Held]:
        """Yield the pods that other holds of gangs keep nodes for, at least those `on` some nodes.

        O(nodes of these holds).
        """
        for gang_id, holds in self._by_gang().items():
            gang = self.known.get(gang_id)
            if gang is None or not gang.takes:
                continue
            for hold in set(holds).difference(replaced):
                if on is not None and holds[hold].keys().isdisjoint(on):
                    continue
                for node, pods in self._awaited_pods(gang, hold):
                    yield node, gang.takes, pods

    def _awaited_pods(self, gang: Gang, hold_id: HoldId) -> Iterable[tuple[NodeName, int]]:
        """Return how many pods a hold waits for, by node; O(its nodes).

        Of places of different sizes O(members): their GPUs do not say how many there are.
        """
        hold = self._state.find_hold(hold_id)
        if not isinstance(hold, Hold):
            return []
        if not hold.slack:
            awaited, size = self._state.bookings.awaited(hold_id), hold.wish.request.gpus_per_pod
            # A smaller pod that has a part of a place leaves the rest: a place all the same.
            return [(node, -(-gpus // size)) for node, gpus in awaited.items()]
        has_pod = self._state.bookings.has_pod
        seats = ((each, each.note) for each in gang.members if each.live)
        there = Counter(
            note.node for each, note in seats if note and note.hold == hold_id and has_pod(each.uid)
        )
        return [(node, max(0, pods - there[node])) for node, pods in hold.places.items()]

    def check(self, asked: Check, blocked: str, evictable: Sequence[Evictable]) -> Checked:
        """Return the planned nodes that cannot take their pods now.

        `blocked`: why the queue cannot take the gang. GPUs of `evictable` pods count as free.
        """
        capacity = self._state.capacity
        if asked.request.kins:
            there = self._occupied(asked.id, asked.request)
            asked = replace(asked, occupied=tuple(there))
        own = self._state.bookings.pods(pod.uid for pod, _ in asked.waiting)
        owners = [*(pod.owner for pod in own), *asked.holds]
        owners += (pod.owner for pod in evictable)
        split, apart = split_groups(capacity, asked), apart_groups(capacity, asked)
        is_judged = asked.over is None
        pods, on = [pod for pod, _ in asked.waiting], {node for _, node in asked.waiting}
        room = self._room(asked, pods, asked.holds, on) if is_judged else None
        return Checked(
            id=asked.id,
            ask=asked.ask,
            lost=lost_nodes(capacity, asked, owners, room),
            blocked=blocked,
            split=split,
            apart=apart,
            settled=settled_groups(capacity, asked) if split or apart else (),
        )

    def release(self, hold: HoldId) -> None:
        """Release a hold; a hold that has ended is no error."""
        self._state.advance(HoldReleased(hold))

    def _begin_unbooked_plan(self, asked: Place) -> HoldId:
        """Return a name for a plan that books nothing, and release the holds that it replaces."""
        self._state.advance(*(HoldReleased(hold) for hold in asked.replaced))
        return HoldId(f"over-{secrets.token_hex(6)}")

    def _hold_nodes(
        self, asked: Place, found: Placed, before: Sequence[Pod]
    ) -> HoldId | HoldRefused:
        """Book the nodes, and release in the same step the pods and holds that this replaces."""
        hold_id = HoldId(f"hold-{secrets.token_hex(6)}")
        key = gang_key(asked.id, hold_id)
        booking = HoldAsked(
            id=hold_id,
            wish=HoldRequest(found.request, self._hold_s, key),
            generation=self._state.generation,
            mode=found.mode,
            gpu_type=found.gpu_type,
            groups=found.groups,
            without=asked.without,
            slack=found.slack,
        )
        *_, change = self._state.advance(
            *(PodGone(pod.uid) for pod in before),
            *(HoldReleased(hold) for hold in asked.replaced),
            booking,
        )
        if isinstance(change, HoldRefused):
            return change
        assert isinstance(change, HoldChange), "it was reserved"  # noqa: S101 - for the checker
        return change.hold.id


def _no_excess(
    _gang: GangId, _members: Iterable[Member], _gpus: int, _own: Iterable[HoldId]
) -> Callable[[str], str]:
    return lambda _gpu_type: ""


def _nowhere(_kin: Kin, _but: GangId) -> tuple[Occupied, ...]:
    return ()


def _describe(evicted: Sequence[Evictable]) -> str:
    """Return a phrase that names the pods to evict; empty if there are none."""
    if not evicted:
        return ""
    units = Counter(pod.unit for pod in evicted)
    most = max(pod.priority for pod in evicted)
    shown = listed([f"{pods} of {unit}" for unit, pods in sorted(units.items())])
    return f"{counted(len(evicted), 'pod')} of priority {most} or less ({shown})"
