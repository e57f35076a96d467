"""Where other resources than GPUs limit the pods on a node: CPUs, memory, ports, devices.

Result: for pods of one shape (GPUs, and amounts of other resources) the nodes on which fewer of
them can be bound than their GPUs alone could take when idle, each with how many can.

Why it is right: kube-scheduler and Volcano bind a pod to a node if for every resource that it asks
for, allocatable minus the sum over the node's pods is enough (NodeResourcesFit). So floor(left /
asked), least over the resources, is how many more such pods fit. A node that states no cpu, memory,
ephemeral-storage or pods is not judged by it: its kubelet has said nothing yet. It has one of
each of its ports and of the places of pods that keep off each other, and none of any other resource
that it does not state.

Cost: O(resources) for a pod or node that changes. A first question for a shape costs a few passes
over an array for each resource, and O(tight nodes). A later one costs O(nodes that changed since):
who asks keeps what it was told, and the names of the last `CHANGES` changed nodes are kept here.

Example: 8 GPUs and 64 CPUs, 60 of them taken; pods of 4 GPUs and 8 CPUs. The GPUs could take two,
the CPUs take none: the node is tight with 0. When a pod of 56 CPUs ends, it is tight no more.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topo.model.errors import require
from topo.model.ids import NodeName
from topo.model.pod_requests import ONE_TO_A_NODE, PODS, Amounts

CHANGES = 4096
"""Nodes that changed last; who looked before them counts all nodes again."""
_ONE_BY_ONE = 16
"""So many nodes are quicker one by one: numpy has a fixed cost for each pass."""
SHAPES = 64
"""Shapes of which growth is told; the one asked for longest ago gives way to a new one."""
PodId = str | int
"""The uid of a pod, or a hash of its key."""
Held = tuple[NodeName, Amounts, int]
"""Pods that will be on a node: what each takes, and how many."""
Shape = tuple[Amounts, int]
"""What each pod takes beside GPUs, and its GPUs."""
Limits = Mapping[NodeName, int | None]
"""How many pods of a shape nodes take; None: as many as their GPUs could."""
_OF_KUBELET = frozenset({"cpu", "memory", "ephemeral-storage", PODS})
"""Resources that every kubelet states."""
_MOST = 1 << 60
"""More than any node has; stands for what is not stated and not judged."""
_MOST_OF_POD = 1 << 57
"""What a pod takes at most: 131 TiB, so that 64 such pods are still summed rightly.

The API server takes any quantity below 2^63 of anybody, and thousandths of it are beyond 64 bits.
"""
_Numbers = NDArray[np.int64]


class Tight(NamedTuple):
    """A node that takes `pods` more of a shape, for want of `resource`; while it is idle `most`."""

    pods: int
    most: int
    resource: str


@dataclass(slots=True)
class _Column:
    """One resource that nodes state: what each has and what its pods take, by number."""

    has: _Numbers
    used: _Numbers

    @classmethod
    def of(cls, resource: str, nodes: int) -> "_Column":
        return cls(np.full(nodes, _unstated(resource)), np.zeros(nodes, np.int64))

    def grow(self, resource: str, nodes: int) -> None:
        more = _Column.of(resource, nodes - len(self.has))
        self.has = np.concatenate((self.has, more.has))
        self.used = np.concatenate((self.used, more.used))


class _Assumed(NamedTuple):
    """Pods of one shape that are counted for one question: nodes, and how many on each."""

    amounts: Amounts
    numbers: NDArray[np.intp]
    pods: _Numbers


class _Fits(NamedTuple):
    """For some nodes: pods by GPUs alone, by all resources, on the idle node; the scarcest one."""

    could: _Numbers
    pods: _Numbers
    most: _Numbers
    scarcest: _Numbers


class NodeRoom:
    """Nodes and the pods on them. Mutable; one owner. Amounts are thousandths of a unit."""

    def __init__(self) -> None:
        self._numbers: dict[NodeName, int] = {}
        self._names: list[NodeName] = []
        self._stated: set[int] = set()
        """Numbers of nodes that are there; others only have pods left."""
        self._pod_counts: list[int] = []
        self._free_numbers: list[int] = []
        self._gpus: _Numbers = np.zeros(0, np.int64)
        self._columns: dict[str, _Column] = {}
        self._few: dict[str, dict[int, int]] = {}
        """What pods take of resources that no node states, by number. One pod may have a thousand
        ports, and a column is as long as there are nodes."""
        self._pods: dict[PodId, tuple[int, Amounts]] = {}
        self._asked: OrderedDict[Shape, dict[int, int]] = OrderedDict()
        """Of each shape how many pods fitted on each tight node at the last look."""
        self._changed: dict[int, None] = {}
        """Nodes that changed since growth was looked for; kept while shapes are asked for."""
        self._last: list[NodeName] = []
        """The nodes that changed last, in order; `_forgotten` are those before them."""
        self._forgotten = 0
        self.on_tight: Callable[[], None] | None = None
        """Called when a node changes that was tight for a shape that was asked for."""

    def set_node(self, name: NodeName, allocatable: Mapping[str, int], gpus: int) -> None:
        """Set what a node has: all of its resources but cards, and its whole GPUs."""
        number = self._number(name)
        self._stated.add(number)
        for resource, stated in allocatable.items():
            if stated != _unstated(resource) and resource not in self._columns:
                self._begin_column(resource)
        for resource, column in [*self._columns.items()]:
            unstated, before = _unstated(resource), column.has[number]
            column.has[number] = has = min(allocatable.get(resource, unstated), _MOST)
            if has == unstated != before and bool((column.has == unstated).all()):
                self._end_column(resource)
        self._gpus[number] = gpus
        self._touch(number)

    def remove_node(self, name: NodeName) -> None:
        """Remove a node; what its pods take is kept until they are gone."""
        if name in self._numbers:
            self.set_node(name, {}, 0)
            self._stated.discard(self._numbers[name])
            self._release(self._numbers[name])

    def set_pod(self, uid: PodId, node: NodeName, amounts: Amounts) -> None:
        """Set what a pod takes of a node."""
        number, amounts = self._number(node), _bounded(amounts)
        if self._pods.get(uid) == (number, amounts):
            return
        self.remove_pod(uid)
        number = self._number(node)  # which may have had no other pod
        self._pods[uid] = number, amounts
        self._pod_counts[number] += 1
        self._take(number, amounts, 1)

    def remove_pod(self, uid: PodId) -> None:
        """Remove a pod; an unknown one is ignored."""
        if (found := self._pods.pop(uid, None)) is not None:
            number, amounts = found
            self._pod_counts[number] -= 1
            self._take(number, amounts, -1)
            self._release(number)

    def tight(
        self,
        amounts: Amounts,
        gpus: int,
        own: Iterable[PodId] = (),
        held: Iterable[Held] = (),
    ) -> Mapping[NodeName, Tight]:
        """Return the tight nodes for pods of `gpus` GPUs that take these amounts.

        The pods of `own` count as gone; pods that are `held` for others count as there.
        """
        if not amounts:
            return {}
        shape = amounts, gpus
        found = self._fits(np.arange(len(self._gpus)), shape)
        tight = self._tight(found, amounts)
        self._note(found, shape)
        numbers, found = self._fits_under(self._assumed(own, held), shape)
        for number in numbers.tolist():
            tight.pop(self._names[number], None)
        return tight | self._tight(found, amounts, numbers)

    @property
    def version(self) -> int:
        """The number of changes of nodes until now."""
        return self._forgotten + len(self._last)

    def limits(self, shape: Shape, since: int) -> Limits | None:
        """Return the limits of the nodes that changed since a version, None where it is too old.

        O(nodes that changed since).
        """
        if since < self._forgotten:
            return None
        changed: dict[NodeName, int | None]
        changed = dict.fromkeys(self._last[since - self._forgotten :])
        known = [self._numbers[name] for name in changed if name in self._numbers]
        return changed | self._limits(known, shape)

    def all_limits(self, shape: Shape) -> Limits:
        """Return the limits of all tight nodes; O(nodes)."""
        found = self._fits(np.arange(len(self._gpus)), shape)
        at = np.flatnonzero(found.pods < found.could)
        names = self._names
        rows = zip(at.tolist(), found.pods[at].tolist(), strict=True)
        return {names[number]: pods for number, pods in rows}

    def limits_under(
        self, shape: Shape, own: Iterable[PodId] = (), held: Iterable[Held] = ()
    ) -> Limits:
        """Return the limits of the nodes on which pods count as gone or as there, as in `tight`.

        O(such nodes).
        """
        if not (assumed := self._assumed(own, held)):
            return {}
        numbers, found = self._fits_under(assumed, shape)
        return self._limits_of(numbers.tolist(), found)

    def shortages(
        self,
        amounts: Amounts,
        pods: Mapping[NodeName, int],
        own: Iterable[PodId] = (),
        held: Iterable[Held] = (),
    ) -> dict[NodeName, str]:
        """Return the nodes without room for so many pods, with the first resource that is short.

        Of GPUs it says nothing; an unknown node lacks nothing. O(resources of the nodes given).
        """
        known = {name: number for name in pods if (number := self._numbers.get(name)) is not None}
        assumed = self._assumed(own, held)
        for each in assumed:
            self._assume(each, 1)
        found: dict[NodeName, str] = {}
        for name, number in known.items():
            for resource, asked in _bounded(amounts):
                has, used = self._of_node(resource, number)
                if has != _MOST and used + pods[name] * min(asked, _MOST) > has:
                    found[name] = resource
                    break
        for each in assumed:
            self._assume(each, -1)
        return found

    def _of_node(self, resource: str, number: int) -> tuple[int, int]:
        """Return what a node has of a resource, and what its pods take of it; O(1)."""
        if (column := self._columns.get(resource)) is not None:
            return int(column.has[number]), int(column.used[number])
        return _unstated(resource), self._few.get(resource, {}).get(number, 0)

    def _limits(self, numbers: list[int], shape: Shape) -> dict[NodeName, int | None]:
        names = self._names
        if len(numbers) <= _ONE_BY_ONE:
            return {names[number]: self._limit(number, shape) for number in numbers}
        return self._limits_of(numbers, self._fits(np.array(numbers), shape))

    def _limits_of(self, numbers: list[int], found: _Fits) -> dict[NodeName, int | None]:
        names = self._names
        rows = zip(numbers, found.pods.tolist(), found.could.tolist(), strict=True)
        return {names[number]: pods if pods < could else None for number, pods, could in rows}

    def _limit(self, number: int, shape: Shape) -> int | None:
        amounts, gpus = shape
        pods = could = int(self._gpus[number]) // gpus
        for resource, asked in amounts:
            has, used = self._of_node(resource, number)
            if has != _MOST:
                pods = min(pods, max(0, (has - used) // min(asked, _MOST)))
        return pods if pods < could else None

    def _fits_under(self, assumed: list[_Assumed], shape: Shape) -> tuple[NDArray[np.intp], _Fits]:
        """Return the nodes of which something is assumed, and how many pods they then take."""
        numbers = np.zeros(0, np.intp)
        if assumed:
            numbers = np.unique(np.concatenate([each.numbers for each in assumed]))
        for each in assumed:
            self._assume(each, 1)
        found = self._fits(numbers, shape)
        for each in assumed:
            self._assume(each, -1)
        return numbers, found

    def _assumed(self, own: Iterable[PodId], held: Iterable[Held]) -> list[_Assumed]:
        """Return the pods that count as gone, and those that count as there, by what they take.

        Gangs hold many nodes and have few shapes, so that each shape is added in one pass.
        """
        found: dict[Amounts, tuple[list[int], list[int]]] = {}
        for number, amounts in (self._pods[uid] for uid in own if uid in self._pods):
            numbers, pods = found.setdefault(amounts, ([], []))
            numbers.append(number)
            pods.append(-1)
        known = self._numbers
        for node, amounts, number_of_pods in held:
            if node in known:
                numbers, pods = found.setdefault(_bounded(amounts), ([], []))
                numbers.append(known[node])
                pods.append(number_of_pods)
        return [
            _Assumed(amounts, np.array(numbers), np.array(pods))
            for amounts, (numbers, pods) in found.items()
        ]

    def take_growth(self) -> bool:
        """Return whether more pods of a shape asked for fit on a tight node than at the last call.

        A few passes over the nodes that changed, for each shape.
        """
        if not (self._changed and self._asked):
            self._changed.clear()
            return False
        numbers = np.array(list(self._changed))
        self._changed.clear()
        has_grown = False
        for shape, asked in self._asked.items():
            found = self._fits(numbers, shape)
            for at, number in enumerate(numbers.tolist()):
                before, now = asked.get(number), int(found.pods[at])
                has_grown |= before is not None and now > before
                if now < found.could[at]:
                    asked[number] = now
                else:
                    asked.pop(number, None)
        return has_grown

    def validate(self) -> None:
        """Check that what is used is the sum over the pods."""
        used = {resource: np.zeros_like(self._gpus) for resource in self._columns}
        few: dict[str, dict[int, int]] = {}
        for number, amounts in self._pods.values():
            for resource, amount in amounts:
                if resource in used:
                    used[resource][number] += amount
                else:
                    of_nodes = few.setdefault(resource, {})
                    of_nodes[number] = of_nodes.get(number, 0) + amount
        for resource, column in self._columns.items():
            same = bool((column.used == used[resource]).all())
            require(same, f"the used {resource} of a node is not that of its pods")
            is_stated = bool((column.has != _unstated(resource)).any())
            require(is_stated, f"{resource} has a column, and no node states it")
        require(few == self._few, "what is used of a resource that no node states is not so")
        taken = {*self._numbers.values()}
        require(taken.isdisjoint(self._free_numbers), "a node has a number that is free")
        require(len(taken) + len(self._free_numbers) == len(self._names), "a number is lost")

    def _number(self, name: NodeName) -> int:
        number = self._numbers.get(name)
        if number is not None:
            return number
        if self._free_numbers:
            number = self._numbers[name] = self._free_numbers.pop()
            self._names[number] = name
        else:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
            self._pod_counts.append(0)
            if number == len(self._gpus):
                size = max(64, 2 * number)
                for resource, column in self._columns.items():
                    column.grow(resource, size)
                self._gpus = np.concatenate((self._gpus, np.zeros(size - number, np.int64)))
        return number

    def _release(self, number: int) -> None:
        """Free the number of a node that is gone with all of its pods."""
        if number in self._stated or self._pod_counts[number]:
            return
        del self._numbers[self._names[number]]
        self._free_numbers.append(number)

    def _take(self, number: int, amounts: Amounts, sign: int) -> None:
        for resource, amount in amounts:
            self._add(resource, number, sign * amount)
        self._touch(number)

    def _add(self, resource: str, number: int, amount: int) -> None:
        """Add to what the pods of a node take; O(1)."""
        if (column := self._columns.get(resource)) is not None:
            column.used[number] += amount
            return
        few = self._few.setdefault(resource, {})
        few[number] = few.get(number, 0) + amount
        if not few[number]:
            del few[number]
        if not few:
            del self._few[resource]

    def _begin_column(self, resource: str) -> None:
        """Count a resource by column, which a node states."""
        column = self._columns[resource] = _Column.of(resource, len(self._gpus))
        for number, amount in self._few.pop(resource, {}).items():
            column.used[number] = amount

    def _end_column(self, resource: str) -> None:
        """Count a resource by node again, which no node states any more."""
        used = self._columns.pop(resource).used
        if few := {int(number): int(used[number]) for number in np.flatnonzero(used)}:
            self._few[resource] = few

    def _assume(self, assumed: _Assumed, sign: int) -> None:
        for resource, amount in assumed.amounts:
            added = sign * amount * assumed.pods
            if (column := self._columns.get(resource)) is not None:
                np.add.at(column.used, assumed.numbers, added)
                continue
            for number, more in zip(assumed.numbers.tolist(), added.tolist(), strict=True):
                self._add(resource, number, more)

    def _shown(self, resource: str) -> _Column:
        """Return the column of a resource, one to be read alone where nodes do not state it."""
        if (column := self._columns.get(resource)) is not None:
            return column
        column = _Column.of(resource, len(self._gpus))
        if few := self._few.get(resource):
            column.used[[*few]] = [*few.values()]
        return column

    def _touch(self, number: int) -> None:
        self._last.append(self._names[number])
        if len(self._last) > 2 * CHANGES:
            self._forgotten += CHANGES
            del self._last[:CHANGES]
        if not self._asked:
            return
        self._changed[number] = None
        if self.on_tight is not None and any(number in each for each in self._asked.values()):
            self.on_tight()

    def _fits(self, numbers: NDArray[np.intp], shape: Shape) -> _Fits:
        """Return how many pods of a shape these nodes take."""
        amounts, gpus = shape
        could = self._gpus[numbers] // gpus
        pods, most = could.copy(), could.copy()
        scarcest = np.zeros_like(could)
        least = _MOST
        for at, (resource, wanted) in enumerate(amounts):
            asked = min(wanted, _MOST)
            if resource not in self._columns and resource not in self._few:
                # As many on every node: of a thousand ports one pass is enough.
                if (alike := _unstated(resource)) != _MOST and alike // asked < least:
                    least = alike // asked
                    scarcest = np.where(least < pods, at, scarcest)
                    pods, most = np.minimum(pods, least), np.minimum(most, least)
                continue
            column = self._shown(resource)
            has = column.has[numbers]
            # What is not judged stays so, however much pods take of it.
            is_judged = has != _MOST
            fit = np.where(is_judged, np.maximum(has - column.used[numbers], 0) // asked, could)
            scarcest = np.where(fit < pods, at, scarcest)
            pods = np.minimum(pods, fit)
            most = np.minimum(most, np.where(is_judged, has // asked, could))
        return _Fits(could, pods, most, scarcest)

    def _tight(
        self, found: _Fits, amounts: Amounts, numbers: NDArray[np.intp] | None = None
    ) -> dict[NodeName, Tight]:
        at = np.flatnonzero(found.pods < found.could)
        which = at if numbers is None else numbers[at]
        rows = zip(
            which.tolist(),
            found.pods[at].tolist(),
            found.most[at].tolist(),
            found.scarcest[at].tolist(),
            strict=True,
        )
        names = self._names
        return {names[number]: Tight(p, most, amounts[s][0]) for number, p, most, s in rows}

    def _note(self, found: _Fits, shape: Shape) -> None:
        """Note a shape that was asked for, and its tight nodes as they are."""
        at = np.flatnonzero(found.pods < found.could)
        self._asked[shape] = dict(zip(at.tolist(), found.pods[at].tolist(), strict=True))
        self._asked.move_to_end(shape)
        if len(self._asked) > SHAPES:
            self._asked.popitem(last=False)


def _bounded(amounts: Amounts) -> Amounts:
    """Return what a pod takes as it is counted."""
    if all(amount <= _MOST_OF_POD for _, amount in amounts):
        return amounts
    return tuple((resource, min(amount, _MOST_OF_POD)) for resource, amount in amounts)


def _unstated(resource: str) -> int:
    """Return what a node has of a resource that it does not state."""
    if resource.startswith(ONE_TO_A_NODE):
        return 1000
    return _MOST if resource in _OF_KUBELET else 0
