"""Which GPU of one source is which GPU of another.

Result: for each source, its own GPU indexes mapped to those of the result. Sources number GPUs each
in their own way: a library leaves out a broken card, sysfs counts by address. So GPUs are joined by
PCI address, then by UUID, and by index only where neither is known on both sides. A key that two
GPUs of the result share joins nothing, and GPUs that name different addresses or UUIDs are never
one: a wrong join would move ports and health to another card, a missing one only loses a detail.

Cost: O(GPUs) per source.

Example: the library lists GPU0 at 1b:00.0 and GPU1 at 3d:00.0; card 2b:00.0 is broken and left out.
The command lists GPU0 1b:00.0, GPU1 2b:00.0 (not available) and GPU2 3d:00.0. By address its GPU0
is our GPU0 and its GPU2 our GPU1. Its GPU1 joins with nothing: index 1 is ours, but the addresses
differ. It is added under the next free index, 2. So its indexes 0, 1, 2 are ours 0, 2, 1.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TypeVar

from topo.model.machine import MAX_GPUS, Gpu, GpuFabric, LinkPort

F = TypeVar("F", Gpu, LinkPort, GpuFabric)
_FILLED = ("uuid", "bdf", "model", "memory_bytes", "numa")


@dataclass(slots=True)
class GpuTable:
    """The GPUs of a host while sources are merged, the most trusted first. Mutable."""

    gpus: list[Gpu] = field(default_factory=list)

    def merge(self, listed: Iterable[Gpu], *, adding: bool) -> Mapping[int, int]:
        """Fill what is None from a source's list; return its indexes, each with ours.

        GPUs that are not known are added where `adding`, under their own index if it is free, else
        under the next one. O(len(listed) + len(self.gpus)).
        """
        left = list(listed)
        ours: dict[int, int] = {}
        taken: set[int] = set()
        # By the surest key first; a GPU that joined by one is not tried by the next.
        for key in _KEYS:
            known = _unique(key, self.gpus)
            still: list[Gpu] = []
            for gpu in left:
                place = known.get(key(gpu))
                # Never two of a source on one GPU, and never two that contradict each other.
                if place is None or place in taken or _differ(self.gpus[place], gpu):
                    still.append(gpu)
                    continue
                taken.add(place)
                ours[gpu.index] = self.gpus[place].index
                self.gpus[place] = _filled(self.gpus[place], gpu)
            left = still
        for gpu in left if adding else ():
            free = self._free(gpu.index)
            if free is not None:
                ours[gpu.index] = free
                self.gpus.append(replace(gpu, index=free))
        return ours

    def _free(self, wanted: int) -> int | None:
        used = {gpu.index for gpu in self.gpus}
        return next((index for index in (wanted, *range(MAX_GPUS)) if index not in used), None)


def _uuid(gpu: Gpu) -> object:
    return gpu.uuid and gpu.uuid.lower()


_KEYS: tuple[Callable[[Gpu], object], ...] = (attrgetter("bdf"), _uuid, attrgetter("index"))


def _unique(key: Callable[[Gpu], object], gpus: list[Gpu]) -> dict[object, int]:
    """Return key to place, without None and without keys that several GPUs claim."""
    counts = Counter(key(gpu) for gpu in gpus)
    return {
        key(g): place for place, g in enumerate(gpus) if key(g) is not None and counts[key(g)] == 1
    }


def _differ(one: Gpu, other: Gpu) -> bool:
    """Return whether two GPUs cannot be one: both name an address, or both a UUID, and not the
    same.
    """
    if one.bdf and other.bdf:
        return one.bdf != other.bdf
    return bool(one.uuid and other.uuid) and _uuid(one) != _uuid(other)


def _filled(known: Gpu, more: Gpu) -> Gpu:
    if known.healthy is None:
        known = replace(known, healthy=more.healthy, trouble=more.trouble)
    return filled(known, more, _FILLED)


def filled(known: F, more: F, names: Iterable[str]) -> F:
    """Return `known` with the fields of `more` where its own are None."""
    return replace(known, **{n: getattr(more, n) for n in names if getattr(known, n) is None})
