"""Bookings of GPUs by holds and pods, as one state machine: events in, changes out.

Every hold and every pod books its GPUs in the `Capacity` under an owner of its own, so that the
next placement sees them as used. Nothing here reads a clock: the same events at the same times give
the same bookings (`replay` relies on it).

How a hold turns into pods: a pod of a hold takes over the hold's GPUs on its node, so they are
counted once. The hold continues to book the GPUs that it waits for: its own minus those of its
pods. Once bound pods have all of its GPUs, the hold has ended. If a pod is bound to an unplanned
node, its GPUs are subtracted from the nodes of the last ranks, because pods of the first ranks come
first, and a `STRAYED` change reports it. A hold with slack does not end so, since pods of 0
GPUs take nothing here by which they would be seen: its owner releases it.

Example: a hold of 8 GPUs on each of n1, n2, n3. A pod is bound to n1: pod n1 8, hold n2 8, n3 8. A
pod is bound to n9: pods n1 8, n9 8, hold n2 8, and `STRAYED n9 8`. A pod is bound to n2: pods n1 8,
n9 8, n2 8, and the hold has ended, `BOUND n9 8`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush

from topo.model.errors import BrokenInvariantError
from topo.model.ids import NodeName
from topo.placement.booking.bookings_view import BookingsState, BookingsView
from topo.placement.booking.events import (
    Absent,
    Change,
    Event,
    HoldAsked,
    HoldChange,
    HoldCommitted,
    HoldReleased,
    Pod,
    PodChange,
    PodGone,
    PodPhase,
    PodSeen,
    What,
)
from topo.placement.booking.holds import (
    ClockReading,
    Ended,
    Gpus,
    Hold,
    HoldId,
    HoldsMemory,
    Limits,
    held_gpus,
    no_longer_fits,
)
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import Difference

_REMEMBERED_ENDS = 1000
"""How many ended holds are remembered, so that they differ from unknown ones."""
_PHASES = tuple(PodPhase)
_STAYING = (PodPhase.NOMINATED, PodPhase.BOUND)


class Bookings(BookingsView):
    """The only writer of holds and pods. It books their GPUs, and nothing else."""

    def __init__(self, capacity: Capacity, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self._capacity = capacity

    # What happens

    def advance(self, now_s: float, *events: Event) -> tuple[Change, ...]:
        """End the holds whose time is over, then apply events in order; return the changes.

        A repeated event changes nothing. The effect of pods on their holds is computed once for all
        adjacent pods. O(log holds) to expire holds, O(1) per pod, O(nodes) per touched hold.
        """
        changes = [*self._expired(now_s)]
        for event in events:
            if isinstance(event, PodSeen):
                changes += self._see_pod(event)
            elif isinstance(event, PodGone):
                changes += self._drop_pod(event.uid)
            else:
                changes += self._settle_pods(now_s)
                changes += self._hold_event(event, now_s)
        changes += self._settle_pods(now_s)
        return tuple(changes)

    def _hold_event(
        self, event: HoldAsked | HoldCommitted | HoldReleased, now_s: float
    ) -> Iterator[Change]:
        match event:
            case HoldAsked():
                yield self._reserve(event, now_s)
            case HoldCommitted():
                yield from self._commit(event.id)
            case HoldReleased():
                yield self._release(event.id, now_s)

    def _expired(self, now_s: float) -> Iterator[Change]:
        while self._deadlines and self._deadlines[0][0] <= now_s:
            deadline_s, hold_id = heappop(self._deadlines)
            hold = self._holds.get(hold_id)
            # A hold that was committed or restored since has an entry that no longer counts.
            if hold is not None and hold.deadline_s == deadline_s:
                yield self._end(hold, What.EXPIRED, deadline_s)

    def _reserve(self, asked: HoldAsked, now_s: float) -> Change:
        """Book a whole placement, or refuse it if a node is gone, closed or too full."""
        if self.find(asked.id) is not None:
            raise BrokenInvariantError(f"bookings: {asked.id} is not a new name for a hold")
        known = self.find_by_key(asked.wish)
        if isinstance(known, Hold):
            return HoldChange(What.REPEATED, known)
        gpus = held_gpus(asked.groups, asked.wish.request.gpus_per_pod, asked.slack)
        declined = (
            known or self.refuse_impossible(asked.wish) or no_longer_fits(gpus, self._capacity)
        )
        if declined is not None:
            return declined
        hold = Hold(
            id=asked.id,
            wish=asked.wish,
            mode=asked.mode,
            gpu_type=asked.gpu_type,
            groups=asked.groups,
            generation=asked.generation,
            created_s=now_s,
            deadline_s=now_s + asked.wish.hold_s,
            slack=asked.slack,
        )
        self._add(hold, gpus)
        return HoldChange(What.RESERVED, hold)

    def _commit(self, hold_id: HoldId) -> Iterator[Change]:
        hold = self._holds.get(hold_id)
        if hold is None:
            yield Absent(hold_id, self._ends.get(hold_id))
        elif hold.deadline_s is not None:
            kept = self._holds[hold_id] = replace(hold, deadline_s=None)
            self._version += 1
            yield HoldChange(What.COMMITTED, kept)

    def _release(self, hold_id: HoldId, now_s: float) -> Change:
        hold = self._holds.get(hold_id)
        if hold is None:
            return Absent(hold_id, self._ends.get(hold_id))
        return self._end(hold, What.RELEASED, now_s)

    def _see_pod(self, seen: PodSeen) -> Iterator[Change]:
        """Book a pod's GPUs on its node. A late event never moves a pod to an earlier phase."""
        pod, before = seen.pod, self._pods.get(seen.pod.uid)
        if before is not None and (
            seen == before or _PHASES.index(seen.phase) < _PHASES.index(before.phase)
        ):
            return
        if before is not None and (before.pod.hold, before.pod.owner) != (pod.hold, pod.owner):
            yield from self._drop_pod(pod.uid)
        if before is not None:
            self._touch(before.pod)
        self._take(seen)
        self._version += 1
        self._touch(pod)
        yield PodChange(pod, seen.phase)

    def _drop_pod(self, uid: str) -> Iterator[Change]:
        seen = self._pods.pop(uid, None)
        if seen is None:
            return
        pod = seen.pod
        self._capacity.release(pod.owner)
        self._counts.drop(seen)
        if pod.hold is not None:
            del self._pods_of[pod.hold][uid]
            if not self._pods_of[pod.hold]:
                del self._pods_of[pod.hold]
        self._touch(pod)
        self._version += 1
        yield PodChange(pod, None)

    def _touch(self, pod: Pod) -> None:
        if pod.hold is not None:
            self._touched.setdefault(pod.hold, {})[pod.node] = None

    def _settle_pods(self, now_s: float) -> Iterator[Change]:
        """Rebook what touched holds still wait for; end the holds that bound pods replace."""
        for hold_id, nodes in self._touched.items():
            if hold_id in self._holds:
                yield from self._settle_hold(self._holds[hold_id], nodes, now_s)
        self._touched.clear()

    def _settle_hold(self, hold: Hold, nodes: Iterable[NodeName], now_s: float) -> Iterator[Change]:
        # Pods outside of the plan move the rest of the hold: all of it is booked again.
        if not self._rebook_on(hold.id, nodes):
            self._book(hold)
        before, now = self._elsewhere.get(hold.id, ()), self._beyond_plan(hold.id)
        self._elsewhere[hold.id] = now
        bound = self._counts.total(hold.id, PodPhase.BOUND)
        if bound >= sum(self._planned[hold.id].values()) and not hold.slack:
            yield self._end(hold, What.BOUND, now_s)
        elif now and now != before:
            yield HoldChange(What.STRAYED, hold, now)

    def _rebook_on(self, hold_id: HoldId, nodes: Iterable[NodeName]) -> bool:
        """Rebook a hold on the nodes where its pods changed; return whether that was enough.

        It is enough while pods take no more than planned on each node: then only the changed nodes
        differ. So each pod of a large job costs O(1).
        """
        planned = self._planned[hold_id]
        awaited = {n: planned.get(n, 0) - self._counts.taken_on(hold_id, n) for n in nodes}
        if hold_id not in self._as_planned or min(awaited.values(), default=0) < 0:
            return False
        self._capacity.book_on(hold_id, awaited)
        return True

    # A state to go on from, and checks

    def load_state(self, state: BookingsState) -> None:
        """Continue from a saved state. Only for a new machine."""
        for seen in state.pods:
            self._take(seen)
        for hold in state.holds:
            self._add(hold, hold.gpus)
        for ended in state.ended:
            self._remember(ended)
        self._most = max(self._most, len(self))

    def restore(self, memory: HoldsMemory, now: ClockReading) -> tuple[Hold, ...]:
        """Replace all holds by stored ones; return those that have expired since they were stored.

        Holds are also booked on nodes that do not exist yet. Each hold keeps its remaining time
        minus the time that has passed; a changed wall clock never prolongs a hold.
        """
        for hold in tuple(self):
            self._remove(hold)
        saved = memory.saved or now
        passed_s, dropped = now.since(saved), list[Hold]()
        for kept in memory.holds:
            # Ages are kept, not times: the clock of this process began elsewhere.
            age_s = max(0.0, saved.unix_s - kept.created_s) + passed_s
            hold = replace(kept, created_s=now.clock_s - age_s)
            if kept.deadline_s is None:
                self._add(hold, hold.gpus)
                continue
            left_s = min(kept.deadline_s - saved.unix_s, kept.wish.hold_s, self._limits.hold_s)
            hold = replace(hold, deadline_s=now.clock_s + left_s - passed_s)
            if left_s > passed_s:
                self._add(hold, hold.gpus)
            else:
                dropped.append(hold)
        self._most = max(self._most, len(self))
        return tuple(dropped)

    def recount(self) -> tuple[Difference, ...]:
        """Correct bookings that differ from what holds and pods take; return the differences.

        Validates the result. O(holds and pods and their nodes).
        """
        found: list[Difference] = []
        expected, bookings = self._expected_usage(), self._capacity.bookings()
        for owner in [*expected, *(owner for owner in bookings if owner not in expected)]:
            meant, kept = expected.get(owner, {}), bookings.get(owner, {})
            nodes = [node for node in {**meant, **kept} if meant.get(node) != kept.get(node)]
            found += [Difference(node, meant.get(node, 0), kept.get(node, 0)) for node in nodes]
            if nodes:
                self._put(owner, meant)
        self.validate()
        return tuple(found)

    def validate(self) -> None:
        """Raise `BrokenInvariantError` with the first invariant that does not hold.

        O(holds and pods and their nodes).
        """
        for broken, what in self._invariants():
            if broken:
                raise BrokenInvariantError(f"bookings: {what}")

    def _invariants(self) -> Iterator[tuple[bool, str]]:
        """Yield each invariant as (is it broken, text)."""
        holds = self._holds
        yield (
            self._expected_usage() != self._capacity.bookings(),
            "the capacity books something else",
        )
        keys = {hold.wish.key: hold.id for hold in self if hold.wish.key is not None}
        yield keys != self._keys, "the index of keys names other holds"
        due = {(hold.deadline_s, hold.id) for hold in self if hold.deadline_s is not None}
        yield not due <= set(self._deadlines), "a hold with a deadline would never expire"
        yield len(holds) > self._most, f"{len(holds)} holds, where {self._most} may be"
        yield any(hold_id != hold.id for hold_id, hold in holds.items()), "a hold has another id"
        yield not holds.keys().isdisjoint(self._ends), "a hold is there and has ended"
        yield {*self._ended} != self._ends.keys(), "the ends are not those remembered"
        yield len(self._ended) > _REMEMBERED_ENDS, "too many ends are remembered"
        of = {(pod.hold, pod.uid) for pod in self._all_pods() if pod.hold is not None}
        indexed = {(hold_id, uid) for hold_id, uids in self._pods_of.items() for uid in uids}
        yield of != indexed, "the index of pods by hold names others"
        yield from self._counts.flaws(self._pods.values())
        yield self._planned.keys() != holds.keys(), "the plans are not those of the holds"
        for hold_id in self._pods_of.keys() & holds.keys():
            planned, taken = sum(self._planned[hold_id].values()), self._counts.taken(hold_id)
            total = taken.total() + sum(self.awaited(hold_id).values())
            yield total != max(planned, taken.total()), f"hold {hold_id} and its pods count {total}"

    def _expected_usage(self) -> dict[str, Mapping[NodeName, int]]:
        """Return the GPUs by node that each owner should have booked, from holds and pods."""
        expected: dict[str, Mapping[NodeName, int]] = {}
        for hold in self:
            if awaited := self.awaited(hold.id):
                expected[hold.id] = awaited
        for pod in self._all_pods():
            expected[pod.owner] = {pod.node: pod.gpus}
        return expected

    def _all_pods(self) -> Iterator[Pod]:
        return (seen.pod for seen in self._pods.values())

    # How it is kept

    def _beyond_plan(self, hold_id: HoldId) -> Gpus:
        """Return the GPUs that running pods take beyond the plan of their hold, by node."""
        if hold_id in self._as_planned:
            return ()
        taken, planned = self._counts.taken(hold_id, *_STAYING), self._planned[hold_id]
        beyond = ((node, gpus - planned.get(node, 0)) for node, gpus in taken.items())
        return tuple(sorted((node, gpus) for node, gpus in beyond if gpus > 0))

    def _take(self, seen: PodSeen) -> None:
        pod, before = seen.pod, self._pods.get(seen.pod.uid)
        self._pods[pod.uid] = seen
        if before is not None:
            self._counts.drop(before)
        self._counts.add(seen)
        if pod.hold is not None:
            self._pods_of.setdefault(pod.hold, {})[pod.uid] = None
        self._capacity.book(pod.owner, {pod.node: pod.gpus})

    def _book(self, hold: Hold) -> None:
        taken, planned = self._counts.taken(hold.id), self._planned[hold.id]
        if all(gpus <= planned.get(node, 0) for node, gpus in taken.items()):
            self._as_planned.add(hold.id)
        else:
            self._as_planned.discard(hold.id)
        self._put(hold.id, self.awaited(hold.id))

    def _put(self, owner: str, gpus: Mapping[NodeName, int]) -> None:
        if gpus:
            self._capacity.book(owner, gpus)
        else:
            self._capacity.release(owner)

    def _add(self, hold: Hold, gpus: Mapping[NodeName, int]) -> None:
        self._holds[hold.id] = hold
        self._planned[hold.id] = gpus
        self._book(hold)
        self._elsewhere[hold.id] = self._beyond_plan(hold.id)
        if hold.id in self._pods_of:  # pods that came first may take all of it already
            self._touched.setdefault(hold.id, {})
        if hold.wish.key is not None:
            self._keys[hold.wish.key] = hold.id
        if hold.deadline_s is not None:
            heappush(self._deadlines, (hold.deadline_s, hold.id))
        self._version += 1

    def _end(self, hold: Hold, what: What, at_s: float) -> HoldChange:
        self._remember(Ended(hold.id, what.value, at_s))
        return HoldChange(what, hold, self._remove(hold))

    def _remove(self, hold: Hold) -> Gpus:
        """Remove a hold and its bookings; return the GPUs that its pods take on unplanned nodes."""
        self._capacity.release(hold.id)
        del self._holds[hold.id], self._planned[hold.id]
        self._as_planned.discard(hold.id)
        if hold.wish.key is not None:
            del self._keys[hold.wish.key]
        self._version += 1
        return self._elsewhere.pop(hold.id, ())

    def _remember(self, ended: Ended) -> None:
        self._ends[ended.id] = ended
        self._ended.append(ended.id)
        if len(self._ended) > _REMEMBERED_ENDS:
            self._ends.pop(self._ended.popleft(), None)
