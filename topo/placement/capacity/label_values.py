"""The values of the labels that selectors name, by host id, kept current as hosts change.

A key is looked up on all hosts when a selector first names it. After that, a change of a host's
labels costs one step per stored key, and a selector one pass over the values of its keys.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable

from topo.placement.job.request import Labels

MOST_KEYS = 32
"""Keys that are kept; the one asked for longest ago gives way to a new one."""
Values = list[str | None]
"""A label's value by host id; None where the host has no such label."""


class LabelValues:
    """The values of some labels by host id."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[str, Values] = OrderedDict()

    def copy(self) -> "LabelValues":
        """Return an independent copy."""
        twin = LabelValues()
        twin._by_key = OrderedDict((key, values[:]) for key, values in self._by_key.items())
        return twin

    def put(self, host_id: int, labels: Labels) -> None:
        """Set the labels of a host."""
        if self._by_key:
            known = dict(labels)
            for key, values in self._by_key.items():
                if host_id >= len(values):
                    values.extend([None] * (host_id + 1 - len(values)))
                values[host_id] = known.get(key)

    def drop(self, host_id: int) -> None:
        """Remove a host."""
        self.put(host_id, ())

    def matching(self, selector: Labels, hosts: Iterable[tuple[int, Labels]]) -> list[int]:
        """Return the ids of the hosts that have all labels of a selector, which has at least one.

        `hosts` are all hosts; O(hosts) for each key.
        """
        missing = {key for key, _ in selector if key not in self._by_key}
        if missing:
            self._read(missing, hosts)
        (key, value), *others = selector
        found = [host_id for host_id, own in enumerate(self._by_key[key]) if own == value]
        for key, value in others:
            values = self._by_key[key]
            found = [host_id for host_id in found if values[host_id] == value]
        for key, _ in selector:
            self._by_key.move_to_end(key)
        while len(self._by_key) > MOST_KEYS:
            self._by_key.popitem(last=False)
        return found

    def _read(self, keys: Collection[str], hosts: Iterable[tuple[int, Labels]]) -> None:
        """Read keys from the labels of all hosts."""
        known = list(hosts)
        size = 1 + max((host_id for host_id, _ in known), default=-1)
        read: dict[str, Values] = {key: [None] * size for key in keys}
        for host_id, labels in known:
            for key, value in labels:
                if key in read:
                    read[key][host_id] = value
        self._by_key |= read
