"""Keeps hosts and bookings those of the cluster's nodes and pods.

An event of a reflector marks an object, and marked objects are handled in turns: an object that
changes often costs one step, a list of all pods blocks no other task, and the result is the state
of the reflectors, in whatever order events came.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeVar

from pydantic import TypeAdapter

from master.booking.state import BookingState
from master.kube.dra.counts import DeviceCounts, device_claims_of, with_devices
from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.objects import Key, NodeObject, key_of
from master.kube.reflector import Listed, Reflector, StoreEvent
from master.kube.store import Grouped
from master.object_errors import ObjectErrors, ObjectKind
from master.sources.kubernetes import nodes
from master.sources.kubernetes.device_config import SharingModes
from master.sources.kubernetes.hold_claims import HoldClaims
from master.sources.kubernetes.nodes import cluster_node
from master.sources.kubernetes.plan_proof import PlanProof, booked_note
from master.sources.kubernetes.shared_holds import HoldSource, SharedHolds
from topo.kit.process import collector
from topo.model.cluster import ClusterNode
from topo.model.conditions.sources import SourceCondition
from topo.model.errors import Refusal
from topo.model.forest import SourceWarning
from topo.model.ids import NodeName
from topo.model.isolation import ObjectError, attempt
from topo.placement.booking.events import Event, PodGone, PodSeen
from topo.placement.booking.holds import HoldId
from topo.shared_cards.formats import NO_CARDS, Cards

T = TypeVar("T")
TURN = 64
"""Objects of a kind that are handled before other tasks of the event loop run: a few
milliseconds."""
_UNREAD = TypeAdapter(NodeObject).validate_python({"metadata": {"name": ""}})
"""Stands for a known node that must be read again."""
_MODES = ("", "")
"""The key of doubts about the sharing modes; no object has it."""
_CLAIMS_OF = "claims/"
"""With a node's name, what stands among its pods for the claims that have its devices."""
MOST_DOUBTS = 16
"""Doubts that are listed one by one; of others only the number."""


class ClusterCapacity:
    """Keeps the nodes and pods of a `BookingState` those of the cluster. Runs in followers, too.

    An empty list after one with nodes removes none: no cluster that answers has no node. They stay
    until the next event.
    """

    def __init__(
        self,
        state: BookingState,
        of_nodes: Reflector[NodeObject],
        of_pods: Reflector[ClusterPod],
        devices: DeviceCounts,
        *,
        errors: ObjectErrors | None = None,
    ) -> None:
        self._state, self._nodes, self._pods = state, of_nodes, of_pods
        errors = errors or ObjectErrors()
        self._node_errors = errors.scope(ObjectKind.OBJECT, "capacity of node")
        self._pod_errors = errors.scope(ObjectKind.OBJECT, "capacity of pod")
        self._devices = devices
        self._modes = SharingModes()
        self._marked_nodes, self._marked_pods = MarkedKeys(), MarkedKeys()
        self._known_nodes: dict[Key, NodeObject] = {}
        self._known_pods: dict[Key, ClusterPod] = {}
        self._doubts: dict[Key, tuple[str, ...]] = {}
        self._lost_all = False
        self._proof = PlanProof(of_nodes, state)
        self._planned: Grouped[NodeName, None] = Grouped()
        """Pods that are not bound, by the nodes that their notes name."""
        self._noting: Grouped[HoldId, None] = Grouped()
        """The same pods by the holds that their notes name."""
        self._woken = asyncio.Event()
        self.settled = asyncio.Event()
        """Set once all nodes and pods of the first lists are counted."""
        of_nodes.subscribe(self._node_told)
        of_pods.subscribe(self._pod_told)
        devices.on_change.append(self._devices_told)
        self._claims, self._shared = HoldClaims(state), SharedHolds(state)
        state.on_holds = self._count_takers

    @property
    def doubts(self) -> tuple[SourceWarning, ...]:
        """Statements of nodes and pods that cannot be used, in the order of their names."""
        found = [text for key in sorted(self._doubts) for text in self._doubts[key]]
        found += self._claims.doubts
        told, more = found[:MOST_DOUBTS], len(found) - MOST_DOUBTS
        told += [f"{more} more of this kind"] if more > 0 else []
        return SourceWarning.of_each(SourceCondition.DOUBTFUL_OBJECT, told)

    def add_hold_source(self, source: HoldSource) -> None:
        """Count pods against the holds that this source has for them, if they name none."""
        self._shared.sources.append(source)

    def recount(self, keys: Iterable[Key]) -> None:
        """Count pods anew, in the same turn, for which a source has another hold by now.

        A pod whose source raises an error is counted anew, too.
        """
        found = ((key, self._known_pods.get(key)) for key in keys)
        taking = [(key, pod) for key, pod in found if pod is not None and pod.booking]
        is_current = self._shared.is_current
        self._count_again(
            [k for k, pod in taking if attempt(partial(is_current, k, pod)) is not True]
        )

    def share(self, modes: SharingModes, doubt: str = "") -> None:
        """Set which nodes share their cards; `doubt` is what is wrong with the ConfigMap."""
        self._set_doubts({_MODES: (doubt,) if doubt else ()})
        if modes != self._modes:
            self._modes = modes
            self._known_nodes = dict.fromkeys(self._known_nodes, _UNREAD)
            self._mark_nodes()

    async def run(self) -> None:
        """Handle marked objects until cancelled."""
        while True:
            while any(marked := (self._marked_nodes.take(TURN), self._marked_pods.take(TURN))):
                of_nodes, of_pods = marked
                if of_nodes:
                    self._follow_nodes(of_nodes)
                if of_pods:
                    self._follow_pods(of_pods)
                await asyncio.sleep(0)
            if self._nodes.synced and self._pods.synced and not self.settled.is_set():
                collector.freeze()  # 80,000 pods, which a full collection would look through
                self.settled.set()
            self._woken.clear()
            await self._woken.wait()

    # What the reflectors tell: it only marks.

    def _node_told(self, told: StoreEvent[NodeObject]) -> None:
        if isinstance(told, Listed):
            self._lost_all = not told.objects
            self._mark_nodes()
        elif self._lost_all:
            self._lost_all = False
            self._mark_nodes()
        else:
            self._marked_nodes.some[told.key] = None
        self._woken.set()

    def _devices_told(self, nodes: Iterable[NodeName], pods: Iterable[Key] | None) -> None:
        """Read these nodes again, and count once more what these pods take, None for all."""
        self._marked_nodes.some |= dict.fromkeys(self._read_again(nodes))
        known = self._known_pods
        for pod in known.values() if pods is None else filter(None, map(known.get, pods)):
            if device_claims_of(pod):
                self._book_room(pod)
        self._woken.set()

    def _read_again(self, nodes: Iterable[NodeName]) -> list[Key]:
        """Forget what is known of these nodes; return the keys of those that were known."""
        keys = [key for key in {("", str(name)) for name in nodes} if key in self._known_nodes]
        self._known_nodes |= dict.fromkeys(keys, _UNREAD)
        return keys

    def _mark_nodes(self) -> None:
        if not self._lost_all:
            self._marked_nodes.replace([*self._nodes.objects, *self._known_nodes])
        self._woken.set()

    def _pod_told(self, told: StoreEvent[ClusterPod]) -> None:
        if isinstance(told, Listed):
            self._marked_pods.replace([*told.objects, *self._known_pods])
        else:
            self._marked_pods.some[told.key] = None
        self._woken.set()

    # What is marked is made what the reflectors hold.

    def _follow_nodes(self, keys: Collection[Key]) -> None:
        """Make nodes what the reflector holds; while it holds none, they stay until the next event,
        which has all of them read again.
        """
        if self._lost_all:
            return
        news = _changed_objects(keys, self._nodes.objects, self._known_nodes)
        there = {key: self._read_node(found) for key, found in news.items() if found is not None}
        if news:
            self._state.follow_cluster(
                [each.node for each in there.values()],
                [NodeName(name) for _, name in news.keys() - there.keys()],
            )
        for key in news:
            self._follow_room(NodeName(key[1]), there.get(key))
            if key not in there:
                self._node_errors.clear(key[1])
        self._set_doubts({key: there[key].doubts if key in there else () for key in news})
        self._count_planned(NodeName(key[1]) for key in news)

    def _read_node(self, found: NodeObject) -> "_NodeRead":
        """Return what a node states; one for which that raises an error counts as without room."""
        name, policy = NodeName(found.metadata.name), self._state.policy

        def read() -> _NodeRead:
            stated = self._extended(found)
            cards = nodes.shared_cards(stated, policy.domain)
            return _NodeRead(
                cluster_node(stated, policy, self._modes),
                nodes.other_amounts(stated, policy),
                nodes.whole_gpus(stated, policy),
                NO_CARDS if isinstance(cards, Refusal) else cards,
                tuple(nodes.doubts(stated, policy)),
            )

        made = self._node_errors.run(name, read)
        if isinstance(made, ObjectError):
            doubt = f"node {name}: it cannot be read, so it counts as without GPUs: {made}"
            closed = ClusterNode(name=name, unschedulable=True, ready=False, allocatable=())
            return _NodeRead(closed, doubts=(doubt,))
        return made

    def _extended(self, found: NodeObject) -> NodeObject:
        """Return the node with the extended resources of its devices."""
        name, stated = NodeName(found.metadata.name), found.status.allocatable
        more = self._devices.extended(name, stated, self._is_booked)
        return nodes.with_allocatable(found, more) if more else found

    def _is_booked(self, key: Key, node: NodeName) -> bool:
        """Return whether the GPUs that a pod claims are booked on the node."""
        return self._claims_gpus_of(self._known_pods.get(key)) == node

    def _claims_gpus_of(self, pod: ClusterPod | None) -> NodeName | None:
        """Return the node on which GPUs are booked that a pod claims; None for none."""
        if not isinstance(pod, GangPod) or not pod.claimed_gpus:
            return None
        booking = self._proof.borne_out(pod).booking
        return booking.pod.node if booking is not None else None

    def _follow_pods(self, keys: Collection[Key]) -> None:
        """Book and release pods; one of the same name may be another pod."""
        before = self._known_pods
        events: list[Event] = []
        uids = {key: before[key].metadata.uid for key in keys if key in before}
        claiming = [self._claims_gpus_of(before.get(key)) for key in keys]
        news = _changed_objects(keys, self._pods.objects, before)
        claiming += [self._claims_gpus_of(found) for found in news.values()]
        # A device is on its node as a GPU or as one that is taken, never as both: so at once.
        self._follow_nodes(self._read_again(filter(None, claiming)))
        self._claims.note(news)
        self._shared.forget(news)
        for key, found in news.items():
            self._note_plan(key, found)
            seen = None if found is None else self._seen(found)
            uid = uids.get(key)
            if uid is not None and (seen is None or seen.pod.uid != uid):
                events.append(PodGone(uid))
            if seen is not None:
                events.append(seen)
            if uid is not None and (found is None or found.metadata.uid != uid):
                self._state.room.remove_pod(uid)
                self._state.cards.remove_pod(uid)
            if found is not None:
                self._book_room(found)
            else:
                self._pod_errors.clear("/".join(key))
        self._set_doubts({key: () if pod is None else pod.doubts for key, pod in news.items()})
        if events:
            self._state.advance(*events)

    def _note_plan(self, key: Key, found: ClusterPod | None) -> None:
        """Note which node, by its label, and which hold decide whether the plan of a pod counts."""
        note = booked_note(found) if found is not None else None
        if note is not None:
            self._planned.put(key, note.node, None)
            self._noting.put(key, note.hold, None)
        else:
            self._planned.drop(key)
            self._noting.drop(key)

    def _count_planned(self, nodes: Iterable[NodeName]) -> None:
        """Count anew the pods that are planned on nodes that changed: their labels may have."""
        self._count_again([key for node in nodes for key in self._planned.values(node)])

    def _count_again(self, keys: Iterable[Key]) -> None:
        """Count anew what known pods take: what bears out their claims may have come or gone."""
        events: list[Event] = []
        for found in filter(None, map(self._known_pods.get, keys)):
            seen = self._seen(found)
            events.append(seen if seen is not None else PodGone(found.metadata.uid))
            self._book_room(found)
        if events:
            self._state.advance(*events)

    def _seen(self, found: ClusterPod) -> PodSeen | None:
        """Return what a pod takes, and the hold against which it counts.

        A pod of which the hold cannot be found, since that raises an error, counts against none.
        """
        name = "/".join(key_of(found.metadata))
        seen = self._pod_errors.run(name, partial(self._taken_by, found))
        if not isinstance(seen, ObjectError):
            return seen
        booking = self._proof.borne_out(found).booking
        return booking and replace(booking, pod=replace(booking.pod, hold=None))

    def _taken_by(self, found: ClusterPod) -> PodSeen | None:
        """Return what a pod takes, against the hold that it names or else the one it shares."""
        seen = self._proof.borne_out(found).booking
        if seen is None:
            return None
        if seen.pod.hold is not None:
            return self._claims.judge(found, seen)
        hold = self._shared.take(key_of(found.metadata), found)
        return replace(seen, pod=replace(seen.pod, hold=hold)) if hold is not None else seen

    def _count_takers(self, holds: Iterable[HoldId]) -> None:
        """Count anew, in the same turn, the pods that name or share holds which came or ended."""
        changed = tuple(holds)
        noting = (key for hold in changed for key in self._noting.values(hold))
        takers = (*self._claims.naming(changed), *noting, *self._shared.takers(changed))
        self._count_again(dict.fromkeys(takers))

    def _follow_room(self, name: NodeName, found: "_NodeRead | None") -> None:
        room, claims = self._state.room, f"{_CLAIMS_OF}{name}"
        self._state.cards.set_node(name, *(found.cards if found is not None else NO_CARDS))
        if found is None:
            room.remove_pod(claims)
            room.remove_node(name)
            return
        devices = self._devices.of_node(name)
        room.set_node(name, {**found.amounts, **devices.there}, found.gpus)
        if devices.taken:
            room.set_pod(claims, name, devices.taken)
        else:
            room.remove_pod(claims)

    def _book_room(self, pod: ClusterPod) -> None:
        if (node := self._proof.borne_out(pod).takes_of) is not None:
            takes = with_devices(pod.takes, self._devices.unallocated(pod))
            self._state.room.set_pod(pod.metadata.uid, node, takes)
            self._state.cards.set_pod(pod.metadata.uid, node, *pod.shares)
        else:
            self._state.room.remove_pod(pod.metadata.uid)
            self._state.cards.remove_pod(pod.metadata.uid)

    def _set_doubts(self, doubts: Mapping[Key, tuple[str, ...]]) -> None:
        """Replace what is doubtful about these objects."""
        for key, texts in doubts.items():
            if texts:
                self._doubts[key] = texts
            else:
                self._doubts.pop(key, None)


@dataclass(frozen=True, slots=True)
class _NodeRead:
    """What a node states for placement: its GPUs, its other amounts, its shared cards."""

    node: ClusterNode
    amounts: Mapping[str, int] = field(default_factory=dict)
    gpus: int = 0
    cards: Cards = NO_CARDS
    doubts: tuple[str, ...] = ()


class MarkedKeys:
    """The keys of objects to handle. Marking all of them costs no more than a copy of the list."""

    def __init__(self) -> None:
        self.some: dict[Key, None] = {}
        """Those that are marked one by one."""
        self._all: list[Key] = []

    def replace(self, keys: list[Key]) -> None:
        """Mark these objects instead of those marked before."""
        self.some, self._all = {}, keys

    def take(self, most: int) -> list[Key]:
        """Remove and return at most `most` keys, those that were marked one by one first."""
        taken = list(islice(self.some, most))
        for key in taken:
            del self.some[key]
        if (left := most - len(taken)) and self._all:
            taken += self._all[-left:]
            del self._all[-left:]
        return taken


def _changed_objects(
    keys: Iterable[Key], there: Mapping[Key, T], known: dict[Key, T]
) -> dict[Key, T | None]:
    """Return the objects that differ from `known`, None for those that are gone; update `known`."""
    news: dict[Key, T | None] = {}
    for key in keys:
        found, before = there.get(key), known.get(key)
        if found is before:
            continue
        if found is None:
            del known[key]
        else:
            known[key] = found
        if found != before:
            news[key] = found
    return news
