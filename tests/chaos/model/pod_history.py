"""What the API server showed of pods with groups, in the order of its versions, and what of it must
not be: each GPU is a register with one owner, also across leaders.

A watch shows the writes of all masters in one order, that of etcd. So a master that wrote although
it led no more is seen by what it wrote: a GPU that two pods have, a gate that was opened while a
pod of the gang had no place, a group in two domains.

A pod owns GPUs of its node from when it is bound, and from when its gate is open those of its
planned node. A scheduler may bind pods of one gang to each other's planned nodes, so a gang has of
a node what it is bound to or what it is planned on, whichever is more.

    node-1 of 8 GPUs: a is opened with a plan there, b is bound there → the register has two owners
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.chaos.model.verdicts import Kind, Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVersion:
    """One version of a pod as a watch showed it at `seen_s`.

    `group` is its group in the gang, `node` where it is bound, `planned` where its note places it;
    `is_over`: it ended or is gone.
    """

    uid: str
    gang: str
    group: int
    gpus: int
    seen_s: float
    node: str = ""
    planned: str = ""
    gated: bool = True
    is_over: bool = False


@dataclass
class PodHistory:
    """The pods as they were seen last. `rooms`: the GPUs of each node, `homes`: its domain."""

    rooms: Mapping[str, int]
    homes: Mapping[str, str]
    leaving: set[str] = field(default_factory=set)
    """Gangs that somebody has begun to delete: when their GPUs are free is not known."""
    _pods: dict[str, PodVersion] = field(default_factory=dict)
    _opened: set[str] = field(default_factory=set)
    """Gangs of which a gate was opened for a plan."""

    def see(self, pod: PodVersion) -> Iterator[Violation]:
        """Take up the next version, and judge it."""
        last = self._pods.get(pod.uid)
        if pod.is_over:
            self._pods.pop(pod.uid, None)
            return
        self._pods[pod.uid] = pod
        if last is not None and pod.gated and not last.gated:
            yield Violation(Kind.GATE_CLOSED, f"{pod.uid} of {pod.gang}")
        if pod.planned and not pod.gated and pod.gang not in self._opened:
            self._opened.add(pod.gang)
            if bare := [each.uid for each in self._of(pod.gang) if not each.planned]:
                yield Violation(Kind.OPENED_IN_PART, f"{pod.gang} without a place of {bare}")
        yield from self._twice(pod)
        yield from self._split(pod)

    def certain(self, node: str, since_s: float, gpus: int) -> Iterator[Violation]:
        """Judge a hold of GPUs of a node, asked for at `since_s`, beside what pods had by then."""
        pods = [
            each
            for each in self._pods.values()
            if each.node == node and each.seen_s < since_s and each.gang not in self.leaving
        ]
        taken = sum(each.gpus for each in pods)
        if pods and taken + gpus > self.rooms[node]:
            yield Violation(Kind.GPU_TWICE, f"{gpus} GPUs of {node} held, and {taken} of pods")

    def _of(self, gang: str) -> list[PodVersion]:
        return [each for each in self._pods.values() if each.gang == gang]

    def _twice(self, pod: PodVersion) -> Iterator[Violation]:
        node = pod.node or (pod.planned if not pod.gated else "")
        bound, planned = Counter[str](), Counter[str]()
        for each in self._pods.values():
            if each.node == node:
                bound[each.gang] += each.gpus
            if not each.gated and each.planned == node:
                planned[each.gang] += each.gpus
        owners = bound | planned
        if node and owners.total() > self.rooms[node]:
            yield Violation(Kind.GPU_TWICE, f"{node}: {dict(owners)} of {self.rooms[node]}")

    def _split(self, pod: PodVersion) -> Iterator[Violation]:
        homes = defaultdict[int, set[str]](set)
        for each in self._of(pod.gang):
            if each.node:
                homes[each.group].add(self.homes[each.node])
        for group, found in homes.items():
            if len(found) > 1 and group == pod.group and pod.node:
                yield Violation(Kind.SPLIT, f"group {group} of {pod.gang}: {sorted(found)}")
