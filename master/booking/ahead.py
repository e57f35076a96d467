"""What each namespace keeps ahead of its pods, and whether it may keep more.

Every part that books for pods that do not exist asks here, in the step in which it books. The
ledger is read from holds and pods each time: a leader that takes over knows the same.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple, Protocol

from master.booking.state import BookingState
from topo.model.conditions.master import MasterCondition
from topo.model.ids import natural_key
from topo.model.limits import OWN_KEYS
from topo.model.rest.topology import WarningDocument
from topo.model.words import counted, listed
from topo.placement.booking.ahead import (
    AheadLimit,
    AheadRequest,
    KeptAhead,
    excess,
    kept_gpus,
    share_limit,
)
from topo.placement.booking.holds import Hold

READ_S = 1.0
"""What people and Prometheus are shown is at most so old."""
IDLE_S = 60.0
"""GPUs that wait for pods longer than this are a finding; pods of one job are made within
seconds."""

GpuQuota = Callable[[str, Sequence[str]], AheadLimit | None]
"""Returns what the ResourceQuotas of a namespace leave it of GPU resources; None without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """For whom a hold is: the `id` that all holds of one keeper share, and what people call it.

    `kind` and `workload` are as of `KeptAhead`.
    """

    id: str
    kind: str
    namespace: str
    name: str
    workload: str = ""


class Waiting(NamedTuple):
    """The GPUs of each pod of a keeper that exists, waits, and books nothing; each rank once.

    A pod states them: of one that asks for more than a place has, no more than that counts.
    `since_s` is since when it waits for further ones, on the clock of the bookings; None: since its
    hold was made.
    """

    gpus: Sequence[int]
    since_s: float | None = None


class HoldReader(Protocol):
    """Says for whom the holds of one kind of keeper are; one for each prefix of `OWN_KEYS`."""

    def keeper(self, hold: Hold) -> Keeper | None:
        """Return for whom a hold is; None where nobody has it any more. O(1)."""
        ...

    def waiting(self, keeper: Keeper) -> Waiting:
        """Return what pods of the keeper ask for that exist, wait, and book nothing. O(pods)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceAhead:
    """What a namespace keeps ahead of one type, who does, the limit, and for how many seconds.

    `counted` are the GPUs that count against the limit.
    """

    namespace: str
    gpu_type: str
    gpus: int
    counted: int
    limit: AheadLimit
    for_s: float
    keepers: tuple[KeptAhead, ...]


@dataclass
class AheadBudget:
    """The budget of all namespaces. `share`: the part of the GPUs of a type that one may keep.

    `quota` returns the limit by ResourceQuotas, `queued` what a queue reserved (`ahead.Queued`).
    """

    state: BookingState
    share: float = 1.0
    quota: GpuQuota = lambda _namespace, _resources: None
    queued: Callable[[str, str], int] = lambda _namespace, _name: 0
    readers: dict[str, HoldReader] = field(default_factory=dict)
    claims: list[Callable[[], Iterable[KeptAhead]]] = field(default_factory=list)
    """Return what keepers that have begun may have, whatever is booked of it at this moment."""
    _shown: tuple[float, tuple[NamespaceAhead, ...]] = (float("-inf"), ())

    # What there is

    def list_kept(self, namespace: str | None = None) -> list[KeptAhead]:
        """Return what is kept ahead, of one namespace or of all; O(holds, and pods of those)."""
        found: dict[tuple[str, str], tuple[Keeper, list[Hold]]] = {}
        for hold in self.state.holds():
            prefix = next(filter((hold.wish.key or "").startswith, OWN_KEYS), "")
            reader = self.readers.get(prefix)
            keeper = reader.keeper(hold) if reader is not None else None
            if keeper is not None and namespace in {None, keeper.namespace}:
                found.setdefault((prefix, keeper.id), (keeper, []))[1].append(hold)
        return [
            kept
            for (prefix, _), (keeper, holds) in found.items()
            for kept in self._kept_by(prefix, keeper, holds)
        ]

    def _kept_by(self, prefix: str, keeper: Keeper, holds: Iterable[Hold]) -> Iterator[KeptAhead]:
        """Yield what one keeper has, by type: what its holds await, less what is for its pods."""
        awaited = [(hold, sum(self.state.bookings.awaited(hold.id).values())) for hold in holds]
        if not any(gpus for _, gpus in awaited):
            return
        asked, since_s = self.readers[prefix].waiting(keeper)
        largest = max(hold.wish.request.gpus_per_pod for hold, _ in awaited)
        waiting_gpus = sum(min(gpus, largest) for gpus in asked)
        of_type: dict[str, list[tuple[Hold, int]]] = {}
        for hold, gpus in awaited:
            of_type.setdefault(hold.gpu_type, []).append((hold, gpus))
        for gpu_type, parts in of_type.items():
            for_pods = min(sum(gpus for _, gpus in parts), waiting_gpus)
            waiting_gpus -= for_pods
            if (gpus := sum(gpus for _, gpus in parts) - for_pods) > 0:
                yield KeptAhead(
                    id=f"{prefix}{keeper.id}",
                    namespace=keeper.namespace,
                    kind=keeper.kind,
                    name=keeper.name,
                    gpu_type=gpu_type,
                    gpus=gpus,
                    since_s=min(h.created_s for h, _ in parts) if since_s is None else since_s,
                    workload=keeper.workload,
                    holds=tuple(hold.id for hold, _ in parts),
                )

    def limit(self, namespace: str, gpu_type: str, resource: str | None = None) -> AheadLimit:
        """Return the limit of a namespace for GPUs of a type, asked for as `resource`.

        None: any of the resources that are GPUs here.
        """
        asked = self.state.policy.gpu_resources if resource is None else (resource,)
        found = self.quota(namespace, [each for each in asked if each])
        if found is not None:
            return found
        capacity = self.state.capacity
        group_gpus = capacity.peaks(gpu_type, 1)[:1]
        return share_limit(self.share, capacity.gpus_of(gpu_type), sum(group_gpus))

    # What is asked

    def of(self, namespace: str) -> "NamespaceBudget":
        """Return what a namespace may keep as of now; O(holds, and pods of those in it)."""
        kept = self.list_kept(namespace)
        booked: Counter[str] = Counter()
        for each in kept:
            booked[each.id] += each.gpus
        # A keeper that began loses nothing to one that did not while its places are booked again,
        # as under a new leader.
        unbooked = [
            replace(claim, gpus=claim.gpus - booked[claim.id])
            for claim in chain.from_iterable(each() for each in self.claims)
            if claim.namespace == namespace and claim.gpus > booked[claim.id]
        ]
        return NamespaceBudget(self, (*kept, *unbooked))

    def excess(self, asked: AheadRequest) -> str:
        """Return why a keeper may not keep so much, with the numbers; empty where it may.

        O(holds, and pods of those in the namespace).
        """
        return self.of(asked.namespace).excess(asked)

    # What is shown

    def shown(self) -> tuple[NamespaceAhead, ...]:
        """Return what namespaces keep ahead, the most first; at most `READ_S` old."""
        now_s = self.state.clock()
        if now_s - self._shown[0] >= READ_S:
            self._shown = now_s, tuple(self._by_namespace(now_s))
        return self._shown[1]

    def _by_namespace(self, now_s: float) -> list[NamespaceAhead]:
        found: dict[tuple[str, str], list[KeptAhead]] = {}
        for each in self.list_kept():
            found.setdefault((each.namespace, each.gpu_type), []).append(each)
        rows = [self._row(key, kept, now_s) for key, kept in found.items()]
        return sorted(rows, key=lambda row: (-row.gpus, natural_key(row.namespace), row.gpu_type))

    def _row(self, key: tuple[str, str], kept: Sequence[KeptAhead], now_s: float) -> NamespaceAhead:
        limit = self.limit(*key)
        return NamespaceAhead(
            namespace=key[0],
            gpu_type=key[1],
            gpus=sum(each.gpus for each in kept),
            counted=kept_gpus(kept, limit, key[1], self.queued),
            limit=limit,
            for_s=round(max(0.0, now_s - min(each.since_s for each in kept)), 3),
            keepers=tuple(sorted(kept, key=lambda each: (-each.gpus, each.name))),
        )

    def by_namespace(self) -> Mapping[str, int]:
        """Return the GPUs that each namespace keeps ahead, for a metric."""
        sums: Counter[str] = Counter()
        for each in self.shown():
            sums[each.namespace] += each.gpus
        return sums

    def warnings(self) -> tuple[WarningDocument, ...]:
        """Return that namespaces keep GPUs idle for pods that do not come."""
        idle = [each for each in self.shown() if each.for_s >= IDLE_S]
        if not idle:
            return ()
        rows = [
            f"{each.namespace} {counted(each.gpus, 'GPU')}"
            f"{f' of type {each.gpu_type}' if each.gpu_type else ''}"
            f"{f' of at most {most}' if (most := each.limit.gpus) is not None else ''}"
            f" ({each.limit.source})"
            for each in idle
        ]
        text = f"GPUs are kept ahead of pods that are not made yet: {listed(rows)}"
        return (WarningDocument.of(MasterCondition.KEPT_AHEAD, text),)


@dataclass(frozen=True, slots=True)
class NamespaceBudget:
    """What one namespace keeps and may have at a moment; for several questions of that moment."""

    budget: AheadBudget
    kept: tuple[KeptAhead, ...]

    def excess(self, asked: AheadRequest) -> str:
        """Return why a keeper may not keep so much, with the numbers; empty where it may."""
        return excess(
            asked,
            self.kept,
            self.budget.limit(asked.namespace, asked.gpu_type, asked.resource),
            self.budget.queued,
            total=self.budget.state.capacity.gpus_of(asked.gpu_type),
        )

    def excess_of_any(self, asked: AheadRequest, gpu_types: Iterable[str]) -> str:
        """Return why a keeper may keep so much of none of these types; empty where it may of one.

        `asked.gpu_type` is not looked at.
        """
        found = [self.excess(replace(asked, gpu_type=each)) for each in gpu_types]
        return found[0] if found and all(found) else ""
