"""Keeps nodes for the groups of pods that a scheduler asks about, and finds the plan of a pod.

What is booked follows from the pods that the API server shows, and never from a question: anybody
may ask. So a group is held as soon as its first pod is seen waiting, each pod counts against that
hold once it is seen bound, and the hold ends with its last pod. A question that comes before the
pod is seen waits a moment.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import NamedTuple, cast

from master.booking.ahead import AheadBudget
from master.booking.state import BookingState
from master.extender.ahead import GroupsAhead
from master.extender.asking_gang import (
    absent_of,
    asks,
    group_sizes,
    has_ranks,
    is_all_there,
    stated_pods,
)
from master.kube.eligibility import with_eligibility
from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.objects import Key, NodeObject
from master.kube.reflector import Listed, StoreEvent
from master.kube.store import Grouped, Store
from master.object_errors import ObjectErrors, ObjectKind
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed, Seat, slack_of
from topo.gangs.extender.needs import (
    MAX_GROUP_PODS,
    AbsentRanks,
    AskingPod,
    HeldRanks,
    Needs,
    grouped_pods,
    held_ranks,
    is_short,
    needs_of,
    planned_nodes,
)
from topo.gangs.machine.events import Refused
from topo.gangs.machine.gang import GangId, Member, PodUid
from topo.gangs.machine.instructions import Place
from topo.gangs.terms import GroupTerms
from topo.model.ids import NodeName
from topo.model.isolation import ObjectError
from topo.model.pod_requests import most_of
from topo.placement.booking.events import HoldAsked, HoldReleased
from topo.placement.booking.holds import Hold, HoldId, HoldRefused, HoldRequest, unusable_nodes
from topo.placement.capacity.pod_room import PodRoom
from topo.placement.job.plan import PlannedGroup
from topo.placement.job.request import Request, flaw

HOLD_S = 120.0
"""A scheduler binds the pods of a group within seconds, and a group is held again while one of its
pods waits. So long GPUs stay idle for pods that never come."""
TICK_S = 1.0
"""How often gangs that wait are looked at, changed or not: room may have come."""
MANY_NAMES = 10_000
"""Names of a question, beyond which they are looked through in a thread: these take some 3 ms."""
GATHER_S = 2.0
"""So long after its newest pod a job is waited for that may not keep nodes for all of its ranks:
then most of them have pods, and it is placed at once. Pods are dated in whole seconds."""
GANGS_A_TICK = 64
"""Gangs that wait and are placed again in one tick; each takes about a millisecond."""


_Rank = tuple[GangId, int]


@dataclass(frozen=True, slots=True)
class PodPlan:
    """The nodes that await pods of the group of a pod, and the node of its rank."""

    kept: frozenset[NodeName]
    own: NodeName | None


@dataclass(frozen=True, slots=True)
class NoPlan:
    """Why the group of a pod has no room."""

    why: str


class _Granted(NamedTuple):
    """What a gang needs; `lacks` of the ranks that then have nodes have no pod.

    `why`: why it may not have that, or not more.
    """

    needs: Needs
    lacks: int
    why: str


class ExtenderPlans:
    """Groups of pods without gates. `run` books on the master that acts; followers only read.

    `ahead` says what a namespace may keep for ranks without a pod. `server_now` is Unix time by the
    clock of the API servers, which date the pods.
    """

    def __init__(
        self,
        *,
        pods: Store[ClusterPod],
        nodes: Store[NodeObject],
        state: BookingState,
        is_counted: Callable[[], bool],
        ahead: AheadBudget,
        server_now: Callable[[], float] = time.time,
        errors: ObjectErrors | None = None,
    ) -> None:
        self._pods, self._nodes, self._state = pods, nodes, state
        self._keys = AnnotationKeys(state.policy.domain)
        self._is_counted, self._server_now = is_counted, server_now
        self._errors = errors or ObjectErrors()
        self._ahead = GroupsAhead(
            ahead,
            pods_of=self._live,
            any_pod=self._any_pod,
            held=self._held,
            ahead_s=server_now() - state.clock(),
        )
        self._gangs: Grouped[GangId, None] = Grouped()
        self._ranks: Grouped[_Rank, None] = Grouped()
        self._marked: dict[GangId, None] = {}
        self._waiting: dict[GangId, None] = {}
        self._refused: dict[GangId, str] = {}
        self._set_aside: dict[GangId, NoPlan] = {}
        """Gangs whose last step raised an error; one is tried again when a pod of it changes."""
        self._holds: dict[GangId, dict[HoldId, tuple[int, ...]]] = {}
        self._hold_of_rank: dict[_Rank, HoldId] = {}
        self._holds_version = -1
        self._woken = asyncio.Event()
        self._acts = False
        pods.subscribe(self._told)

    # What is read

    def hold_of(self, pod: ClusterPod) -> HoldId | None:
        """Return the hold that a pod counts against; O(held ranks) after a change, else O(1)."""
        if not isinstance(pod, GangPod) or not asks(pod):
            return None
        self._read_holds()
        return self._hold_of_rank.get((pod.gang_id, pod.rank))

    def takers(self, hold: Hold) -> Iterable[Key]:
        """Return the pods of the ranks that a hold keeps nodes for; none of a hold of others.

        O(ranks of the hold): a gang may have a thousand holds, and all may come at once.
        """
        if (held := held_ranks(hold)) is None:
            return ()
        return tuple(chain(*(self._ranks.values((held.gang, rank)) for rank in held.ranks)))

    def is_free(self, pod: ClusterPod) -> bool:
        """Return whether the pod may go where its scheduler likes: it asks for no groups, or the
        pods of its job have no ranks to group them by. O(pods of its gang).
        """
        return not (isinstance(pod, GangPod) and asks(pod) and has_ranks(self._live(pod.gang_id)))

    def find(self, pod: GangPod) -> PodPlan | NoPlan | None:
        """Return the plan of a pod that is not free; None while there is none yet."""
        if (error := self._set_aside.get(pod.gang_id)) is not None:
            return error
        hold_id = self.hold_of(pod)
        hold = self._state.find_hold(hold_id) if hold_id is not None else None
        if hold_id is None or not isinstance(hold, Hold):
            why = self._refused.get(pod.gang_id)
            return NoPlan(why) if why is not None else None
        awaited = self._state.bookings.awaited(hold_id)
        kept = frozenset(node for node, left in awaited.items() if left >= pod.gpus)
        own = planned_nodes(hold, self._held(pod.gang_id)[hold_id]).get(pod.rank)
        # Of places of different sizes each is for its own pod: a larger one would have none.
        return PodPlan(kept & {own} if hold.slack else kept, own)

    def short_of(self, names: Collection[str], gpus: int) -> frozenset[str]:
        """Return the known nodes that have fewer unbooked GPUs, of the named ones at least.

        O(names), and O(known nodes) at most where `MANY_NAMES` are named.
        """
        capacity = self._state.capacity
        host, unbooked = capacity.host, capacity.unbooked
        asked = cast("Collection[NodeName]", names)
        if len(names) > MANY_NAMES:
            asked = [each.name for each in capacity.hosts()]
        # `names` are of any nodes: one that is not known has no GPUs, and is not short of any.
        found = [name for name in asked if unbooked(name) < gpus]
        return frozenset(name for name in found if host(name) is not None)

    def _held(self, gang_id: GangId) -> Mapping[HoldId, tuple[int, ...]]:
        self._read_holds()
        return self._holds.get(gang_id, {})

    def _read_holds(self) -> None:
        """Read what is held again if it changed; of two holds of a rank the first one counts."""
        if self._holds_version == self._state.bookings.version:
            return
        self._holds, self._hold_of_rank = {}, {}
        for hold in self._state.holds():
            if (found := held_ranks(hold)) is not None:
                self._holds.setdefault(found.gang, {})[hold.id] = found.ranks
                for rank in found.ranks:
                    self._hold_of_rank.setdefault((found.gang, rank), hold.id)
        self._holds_version = self._state.bookings.version

    # What the reflector tells: it only marks.

    def _told(self, told: StoreEvent[ClusterPod]) -> None:
        if isinstance(told, Listed):
            self._gangs.clear()
            self._ranks.clear()
            for key, pod in told.objects.items():
                self.note(key, pod)
            self._mark_all()
        else:
            self.note(told.key, self._pods.objects.get(told.key))
        self._woken.set()

    def _mark_all(self) -> None:
        """Mark all gangs: one that was deleted while nobody led has holds and no pods."""
        held = (held_ranks(hold) for hold in self._state.holds())
        self._mark(*self._gangs, *(each.gang for each in held if each is not None))

    def _mark(self, *gangs: GangId) -> None:
        if self._acts:  # a follower would collect them for weeks
            self._marked |= dict.fromkeys(gangs)

    def note(self, key: Key, pod: ClusterPod | None) -> None:
        """Mark the gang of a pod that came, changed or went (None)."""
        before = self._gangs.group_of(key)
        if before is not None:
            self._mark(before)
        if isinstance(pod, GangPod) and asks(pod):
            self._gangs.put(key, pod.gang_id, None)
            self._ranks.put(key, (pod.gang_id, pod.rank), None)
            self._mark(pod.gang_id)
        else:
            self._gangs.drop(key)
            self._ranks.drop(key)

    # What is booked, by the master that acts

    async def run(self) -> None:
        """Hold the nodes of groups that wait, until cancelled.

        An error of one gang is that gang's: its pods have no plan, and the others go on.
        """
        loop = asyncio.get_running_loop()
        tick_s = loop.time() + TICK_S
        self._acts = True
        self._ahead.ahead_s = self._server_now() - self._state.clock()
        self._mark_all()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(tick_s):
                    await self._woken.wait()
            if loop.time() >= tick_s:
                tick_s = loop.time() + TICK_S
                for gang_id in [*islice(self._waiting, GANGS_A_TICK)]:
                    del self._waiting[gang_id]  # those behind have the next tick
                    self._waiting[gang_id] = self._marked[gang_id] = None
            self._woken.clear()
            while self._marked and self._is_counted():
                gang_id = next(iter(self._marked))
                del self._marked[gang_id]
                self._settle_alone(gang_id)
                await asyncio.sleep(0)

    def _settle_alone(self, gang_id: GangId) -> None:
        """Settle a gang; set it aside if that raises an error."""
        found = self._errors.run(ObjectKind.EXTENDER_GANG, gang_id, partial(self._settle, gang_id))
        if isinstance(found, ObjectError):
            self._set_aside[gang_id] = NoPlan(f"this is an error of topo-master: {found}")
            self._waiting.pop(gang_id, None)
        else:
            self._set_aside.pop(gang_id, None)

    def _settle(self, gang_id: GangId) -> None:
        """Make the holds of a gang those that its pods need."""
        live = self._live(gang_id)
        request = self._request(live) if has_ranks(live) else None
        holds, ahead_gpus = dict(self._held(gang_id)), 0
        why = request if isinstance(request, str) else ""
        if isinstance(request, Request):
            granted = self._granted(live, request, holds)
            if granted is None:  # further pods are waited for
                self._waiting[gang_id] = None
                return
            why, ahead_gpus = granted.why, granted.lacks * request.gpus_per_pod
            self._release(granted.needs.ended)
            if granted.needs.ranks:
                why = self._hold(live, request, granted) or why
        elif not live:
            self._release(holds)
        self._ahead.narrow(gang_id, ahead_gpus)
        if why:
            self._refused[gang_id] = why
        else:
            self._refused.pop(gang_id, None)
        # A hold without a pod that waits is for pods that may still come.
        if any(pod.node is None for pod in live) or self._held(gang_id):
            self._waiting[gang_id] = None
        else:
            self._waiting.pop(gang_id, None)

    def _granted(
        self, live: list[GangPod], request: Request, holds: Mapping[HoldId, tuple[int, ...]]
    ) -> _Granted | None:
        """Return the most that the gang needs and its namespace may keep; None where further pods
        are waited for first.

        Without a budget for all ranks of the job it is placed group by group. Groups that the
        budget does not reach have no plan until all of their pods exist. O(pods log groups).
        """
        pods = [AskingPod(rank=pod.rank, node=pod.node) for pod in live]
        age_s = self._age_s(live)
        size, total = request.pods_per_group, stated_pods(live)
        unusable, there = tuple(self._unusable(live, holds)), {pod.rank for pod in pods}

        def grant(asking: Iterable[AskingPod], absent: AbsentRanks) -> _Granted:
            needs = needs_of(
                asking, holds, unusable, group_pods=size, pods_total=total, absent=absent
            )
            lacks = len(needs.ranks_after(holds) - there)
            return _Granted(
                needs, lacks, self._ahead.excess(live, request, lacks) if needs.ranks else ""
            )

        most = absent_of(live, age_s)
        found = grant(pods, most)
        if found.why and most is AbsentRanks.OF_JOB:
            if age_s < GATHER_S:
                return None
            found = grant(pods, AbsentRanks.OF_GROUPS)
        if not found.why:
            return found
        whole, partial = grouped_pods(pods, holds, group_pods=size, pods_total=total)
        best, below, above = grant(whole, AbsentRanks.OF_GROUPS), 0, len(partial)
        while above - below > 1:
            groups = (below + above) // 2
            more = grant(chain(whole, *partial[:groups]), AbsentRanks.OF_GROUPS)
            best, below, above = (best, below, groups) if more.why else (more, groups, above)
        return best._replace(why=best.why or found.why)

    def _age_s(self, live: list[GangPod]) -> float:
        """Return how old the newest pod of a gang is."""
        return self._state.clock() + self._ahead.ahead_s - max(pod.created_s for pod in live)

    def _any_pod(self, gang_id: GangId) -> GangPod | None:
        key = next(iter(self._gangs.values(gang_id)), None)
        found = self._pods.objects.get(key) if key is not None else None
        return found if isinstance(found, GangPod) else None

    def _live(self, gang_id: GangId) -> list[GangPod]:
        """Return the pods of a gang that run or will run, by rank."""
        known = self._pods.objects
        found = (known.get(key) for key in self._gangs.values(gang_id))
        pods = (pod for pod in found if isinstance(pod, GangPod))
        live = [pod for pod in pods if not pod.terminating and not pod.finished]
        return sorted(live, key=lambda pod: pod.rank)

    def _request(self, live: list[GangPod]) -> Request | str | None:
        """Return what the gang asks for as far as its pods are seen; a text: why it has no plan."""
        if not live:
            return None
        first, terms = live[0], live[0].terms
        if not isinstance(terms, GroupTerms):
            return None
        last = max(pod.rank for pod in live)
        request = Request(
            pods=last + 1,
            gpus_per_pod=max(pod.gpus for pod in live),
            group_size=terms.group_size,
            mode=terms.mode,
            within=terms.within,
        )
        refusal = flaw(request)
        if refusal is not None:
            return f"{refusal.what}; {refusal.fix}"
        size = request.pods_per_group
        if size > MAX_GROUP_PODS:
            return f"a group has {size} pods, and at most {MAX_GROUP_PODS} are kept together here"
        if not is_all_there(live, self._age_s(live)):
            # While nobody knows the size of a gang the groups that were seen are taken to be whole.
            known = stated_pods(live) or (last // size + 1) * size
            request = replace(request, pods=max(known, last + 1))
        wants = {pod.rank: pod.wants for pod in live if pod.wants is not None}
        own_label = self._keys.node_label_prefix + first.gang_id
        return with_eligibility(request, wants, self._nodes.objects.values, own_label)

    def _unusable(
        self, live: Sequence[GangPod], holds: Mapping[HoldId, tuple[int, ...]]
    ) -> Iterator[HoldId]:
        """Yield the holds with a node that is gone, closed or taken by others.

        Also those whose places have too few GPUs for their pods: a pod was made again with more, or
        a sibling went elsewhere.
        """
        gpus = {pod.rank: pod.gpus for pod in live if pod.node is None}
        for hold_id, ranks in holds.items():
            hold = self._state.find_hold(hold_id)
            if not isinstance(hold, Hold):
                continue
            awaited = self._state.bookings.awaited
            if unusable_nodes(self._state.capacity, hold) or (
                hold.slack and is_short(planned_nodes(hold, ranks), gpus, awaited(hold_id))
            ):
                yield hold_id

    def _hold(self, live: list[GangPod], request: Request, granted: _Granted) -> str:
        """Place the needed ranks and hold their nodes; return why not, empty where it is done."""
        gang_id, needs = live[0].gang_id, granted.needs
        kept = bound = {pod.rank: pod.node for pod in live if pod.node is not None}
        for hold_id, ranks in self._held(gang_id).items():
            hold = self._state.find_hold(hold_id)
            if hold_id not in (*needs.replaced, *needs.ended) and isinstance(hold, Hold):
                kept = planned_nodes(hold, ranks) | kept
        takes = most_of(pod.takes for pod in live)
        gpus = {pod.rank: pod.gpus for pod in live}
        stay = sorted((rank, node) for rank, node in kept.items() if rank not in needs.ranks)
        held = ((f"{gang_id} {rank}", node) for rank, node in stay if rank not in bound)
        room = PodRoom(self._state.room, takes, request.gpus_per_pod).beside(held)
        is_all = is_all_there(live, self._age_s(live))
        asked = Place(
            id=gang_id,
            ask=0,
            request=request,
            wanted=tuple(_member(rank, gpus.get(rank)) for rank in needs.ranks),
            kept=tuple(stay),
            replaced=needs.replaced,
            sizes=group_sizes(needs.ranks, request.pods_per_group) if is_all else (),
            takes=takes,
        )
        found = answer_place(self._state.capacity, asked, needs.replaced, room=room)
        if isinstance(found, Refused):
            return found.text
        if excess := self._ahead.excess(live, request, granted.lacks, found.gpu_type):
            return excess
        why = self._book(gang_id, request.pods_per_group, asked, found)
        if not why:
            self._ahead.grant(live, request, granted.lacks, found.gpu_type)
        return why

    def _book(self, gang_id: GangId, size: int, asked: Place, found: Placed) -> str:
        """Hold what was found, a hold for each group, in place of the replaced ones."""
        of_group: dict[int, list[Seat]] = {}
        for pod, node in zip(asked.wanted, found.nodes, strict=True):
            of_group.setdefault(pod.rank // size, []).append((pod, node))
        events = [
            _hold_asked(gang_id, each, found, self._state.generation) for each in of_group.values()
        ]
        changes = self._state.advance(*(HoldReleased(each) for each in asked.replaced), *events)
        refused = next((each for each in changes if isinstance(each, HoldRefused)), None)
        return f"{refused.refusal.what}; {refused.refusal.fix}" if refused is not None else ""

    def _release(self, holds: Iterable[HoldId]) -> None:
        for hold_id in tuple(holds):
            self._state.advance(HoldReleased(hold_id))


def _member(rank: int, gpus: int | None) -> Member:
    return Member(uid=PodUid(""), name="", rank=rank, version="", gpus=gpus)


def _hold_asked(gang_id: GangId, placed: list[Seat], found: Placed, generation: int) -> HoldAsked:
    ranks = HeldRanks(gang_id, tuple(pod.rank for pod, _ in placed))
    pods: dict[NodeName, int] = {}
    for _, node in placed:
        pods[node] = pods.get(node, 0) + 1
    # `by_rank` is of the whole gang; what is held is only counted.
    request = Request(
        pods=len(placed),
        gpus_per_pod=found.request.gpus_per_pod,
        group_size=found.request.group_size,
        mode=found.request.mode,
        eligible=found.request.eligible,
    )
    return HoldAsked(
        id=HoldId(f"hold-{secrets.token_hex(6)}"),
        wish=HoldRequest(request, HOLD_S, ranks.key),
        generation=generation,
        mode=found.mode,
        gpu_type=found.gpu_type,
        groups=(PlannedGroup(0, tail=False, pods=tuple(pods.items()), domains=()),),
        slack=slack_of(placed, request.gpus_per_pod),
    )
