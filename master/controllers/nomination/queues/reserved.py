"""The GPUs that queues reserve for pods whose gates are being opened.

A pod counts while it only requests its GPUs: once it is seen open it counts as any other one that
has them. The sums are kept, so that it costs nothing to ask for them: each gang that is read asks.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from master.kube.objects import Key
from topo.gangs.machine.gang import GangId, PodUid


class OpeningPods(Protocol):
    """What is known of a gang, as a value: another one where it changed."""

    def opening_pods(self) -> frozenset[PodUid]:
        """Return the pods whose gates are being opened."""
        ...


@dataclass(frozen=True, slots=True)
class Reserved:
    """Pods of a gang whose gates are being opened, their queue, and what was last known of it."""

    queue: str
    pods: Mapping[PodUid, Key]
    known: OpeningPods | None = None


class ReservedQuota:
    """Mutable; `QueueCounts` owns it and tells it what its pods request."""

    def __init__(self) -> None:
        self._gangs: dict[GangId, Reserved] = {}
        self._gang_of: dict[Key, GangId] = {}
        self._gpus: Counter[Key] = Counter()
        self._of_gang: Counter[GangId] = Counter()
        self._of_queue: Counter[str] = Counter()

    @property
    def keys(self) -> tuple[Key, ...]:
        """The pods that quota is reserved for."""
        return tuple(self._gang_of)

    def by_queue(self, but: str) -> Iterator[tuple[str, int]]:
        """Yield the GPUs that are reserved in each queue, less those of one gang; O(queues)."""
        own = self._gangs.get(GangId(but))
        for queue, gpus in self._of_queue.items():
            of_own = self._of_gang[GangId(but)] if own is not None and own.queue == queue else 0
            yield queue, gpus - of_own

    def put(self, gang_id: GangId, queue: str, pods: Mapping[PodUid, Key]) -> None:
        """Reserve for these pods of a gang, and for none of it besides; none requests any yet."""
        self._drop(gang_id)
        for key in pods.values():
            self.count(key, 0)  # an earlier pod of this name, maybe of another gang, is gone
        self._gang_of |= dict.fromkeys(pods.values(), gang_id)
        if pods:
            self._gangs[gang_id] = Reserved(queue, pods)

    def count(self, key: Key, gpus: int) -> None:
        """Set the GPUs that a pod requests, 0 once it has them or is gone; O(1)."""
        gang_id = self._gang_of.get(key)
        if gang_id is None:
            return
        more, self._gpus[key] = gpus - self._gpus[key], gpus
        self._of_gang[gang_id] += more
        self._of_queue[self._gangs[gang_id].queue] += more

    def retain(self, find: Callable[[GangId], OpeningPods | None]) -> bool:
        """Reserve for no other pods than those whose gates are being opened, by what `find` returns
        for a gang; return whether something is given back.

        O(gangs whose gates are being opened, and pods of those of them that changed).
        """
        is_less = False
        for gang_id, reserved in tuple(self._gangs.items()):
            known = find(gang_id)
            if known is not None and known is reserved.known:
                continue
            opening = known.opening_pods() if known is not None else frozenset[PodUid]()
            is_less |= self._keep(gang_id, replace(reserved, known=known), opening)
        return is_less

    def _keep(self, gang_id: GangId, reserved: Reserved, opening: frozenset[PodUid]) -> bool:
        """Reserve for those pods of a gang alone that are being opened; return whether for less."""
        pods = {uid: key for uid, key in reserved.pods.items() if uid in opening}
        is_less = len(pods) < len(reserved.pods)
        self._give_back(gang_id, (reserved.pods[uid] for uid in reserved.pods.keys() - pods.keys()))
        if pods:
            self._gangs[gang_id] = replace(reserved, pods=pods)
        else:
            self._drop(gang_id)
        return is_less

    def _drop(self, gang_id: GangId) -> None:
        reserved = self._gangs.get(gang_id)
        if reserved is None:
            return
        self._give_back(gang_id, reserved.pods.values())
        del self._gangs[gang_id], self._of_gang[gang_id]
        if not self._of_queue[reserved.queue]:
            del self._of_queue[reserved.queue]

    def _give_back(self, gang_id: GangId, keys: Iterable[Key]) -> None:
        for key in keys:
            if self._gang_of.get(key) == gang_id:
                self.count(key, 0)
                del self._gang_of[key], self._gpus[key]
