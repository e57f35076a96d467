"""Which adapter of a fabric is in which node.

Result: for each adapter its node, or the host that its description names, or neither; the
adapters that lead to several nodes, and the nodes that a description names without joining them.

How: the node whose worker reports the adapter's GUID has it. Of an adapter that no worker reports,
the description names the host: the word before `mlx5_3`, `ibp26s0` or `HCA-4`. That host is a node
if exactly one node answers to the name, its worker reports no adapters or has not spoken, and no
other adapter has the same description.

Why that is right: a GUID is given to one adapter by its maker. A description is text that a daemon
of the host writes, some seconds late or never: in one real fabric of 542 adapters 69 name no host,
and several hosts are called localhost. So a name joins only where it leaves no choice, and never
against a worker. Ends of descriptions are not compared: HCA-6 of one host is mlx5_5 of the next.

Cost: O(adapters) for another fabric; for a node O(its adapters and names).

Example: the fabric has a1 "gpu-01 mlx5_0", a2 "localhost mlx5_0" and a3 "localhost mlx5_0". The
worker of gpu-02 reports a2: a2 is in gpu-02, a1 in gpu-01 by its name, and a3 in no known host.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from topo.discovery.groups.inverted_index import InvertedIndex
from topo.model.errors import require
from topo.model.fabric import Guid
from topo.model.ids import NodeName

_DESCRIPTION = re.compile(r"([\w.-]{1,253}) (?:[a-z]\w{0,30}[0-9]|HCA-[0-9]{1,3})", re.ASCII)
"""A host and a device, by the kernel's name of it or by that of rdma-core: mlx5_3, ibp26s0."""
_NOBODY = frozenset({"localhost", "ubuntu", "localhost.localdomain"})
"""What hosts are called that nobody has named."""


class Stated(NamedTuple):
    """What is known of a node: the adapters that its worker reports, and its names."""

    adapters: frozenset[Guid]
    names: frozenset[str]


def host_of(description: str) -> str:
    """Return the host in a description, in lower case; empty where it names none. O(1)."""
    match = _DESCRIPTION.fullmatch(description)
    host = match.group(1).lower() if match else ""
    return "" if host in _NOBODY else host


def short_name(name: str) -> str:
    """Return the first part of a full name; empty for a short one and for an address."""
    first, dot, _ = name.partition(".")
    return "" if not dot or first.isdecimal() else first


def _shorts(names: Iterable[str]) -> set[str]:
    return {short for name in names if (short := short_name(name))}


class AdapterJoin:
    """The adapters of a fabric and the nodes. Mutable; owned by `FabricGroups`.

    `nodes` has the node of each adapter that has one.
    """

    def __init__(self) -> None:
        self.nodes: dict[Guid, NodeName] = {}
        self._described: dict[Guid, str] = {}
        self._copies: Counter[str] = Counter()
        self._of_host: dict[str, set[Guid]] = {}
        self._longer: dict[str, set[str]] = {}
        """The full names of hosts by their first part."""
        self._stated: dict[NodeName, Stated] = {}
        self._by_adapter: InvertedIndex[Guid, NodeName] = InvertedIndex()
        self._doubled: set[Guid] = set()
        self._unclear: dict[Guid, frozenset[NodeName]] = {}
        """The adapters of which a description alone does not say in which of these nodes it is."""
        self._by_name: InvertedIndex[str, NodeName] = InvertedIndex()
        self._by_short: InvertedIndex[str, NodeName] = InvertedIndex()
        """The nodes with a full name, by the first part of it."""

    def replace(self, adapters: Mapping[Guid, str]) -> None:
        """Take the adapters of another fabric, each with its description."""
        self._described = dict(adapters)
        self._copies = Counter(adapters.values())
        self._of_host, self._longer = {}, {}
        for guid, description in adapters.items():
            if host := host_of(description):
                self._of_host.setdefault(host, set()).add(guid)
                if short := short_name(host):
                    self._longer.setdefault(short, set()).add(host)
        self.nodes, self._unclear = {}, {}
        self._settle(self._described)

    def update(self, node: NodeName, stated: Stated | None) -> bool:
        """Take what is known of a node, None where it is gone; whether an adapter has moved."""
        before = self._stated.get(node)
        if stated == before:
            return False
        if before is not None:
            self._by_adapter.discard(before.adapters, node)
            self._by_name.discard(before.names, node)
            self._by_short.discard(_shorts(before.names), node)
        self._stated.pop(node, None)
        if stated is not None:
            self._stated[node] = stated
            self._by_adapter.add(stated.adapters, node)
            self._by_name.add(stated.names, node)
            self._by_short.add(_shorts(stated.names), node)
        touched = self._touched(before) | self._touched(stated)
        # What is said of an adapter of several nodes names them all.
        doubled = {guid for guid in touched if guid in self._by_adapter.several}
        changed = bool(doubled or not self._doubled.isdisjoint(touched))
        self._doubled = (self._doubled - touched) | doubled
        return self._settle(touched) or changed

    def hosts(self) -> dict[Guid, str]:
        """Return the host of each adapter: its node, or the name in its description."""
        found: dict[Guid, str] = {}
        for host, adapters in self._of_host.items():
            found.update(dict.fromkeys(adapters, f"{host} (no node)"))
        return found | self.nodes

    def is_node(self, name: str) -> bool:
        """Return whether a node answers to this name, in lower case. O(1)."""
        short = short_name(name) or name
        return bool(
            self._by_name.few_keys_of(name)
            or self._by_name.few_keys_of(short)
            or self._by_short.few_keys_of(short)
        )

    @property
    def doubled(self) -> dict[Guid, tuple[NodeName, ...]]:
        """The adapters that several workers report, with their nodes."""
        several = self._by_adapter.several
        return {
            guid: tuple(sorted(nodes)) for guid, nodes in several.items() if guid in self._described
        }

    @property
    def unclear(self) -> dict[str, frozenset[NodeName]]:
        """The descriptions that name a node and join none, with the nodes that they may mean."""
        return {self._described[guid]: nodes for guid, nodes in self._unclear.items()}

    def copies(self, description: str) -> int:
        """Return how many adapters have a description. O(1)."""
        return self._copies[description]

    def _touched(self, stated: Stated | None) -> AbstractSet[Guid]:
        if stated is None:
            return frozenset()
        hosts: set[str] = set(stated.names)
        for name in stated.names:
            hosts |= {short_name(name)} | (self._longer.get(name) or set())
        return stated.adapters.union(*(self._of_host.get(each, ()) for each in hosts))

    def _settle(self, adapters: Iterable[Guid]) -> bool:
        """Join these adapters again; whether one has another node now."""
        moved = False
        for guid in adapters:
            node = self._node(guid)
            meant = self._meant(guid) if node is None else frozenset()
            if meant != self._unclear.get(guid, frozenset()):
                moved = True
                self._unclear.pop(guid, None)
                if meant:
                    self._unclear[guid] = meant
            if node != self.nodes.get(guid):
                moved = True
                if node is None:
                    del self.nodes[guid]
                else:
                    self.nodes[guid] = node
        return moved

    def _node(self, guid: Guid) -> NodeName | None:
        description = self._described.get(guid)
        if description is None or guid in self._by_adapter.several:
            return None
        if (node := self._by_adapter.sole.get(guid)) is not None:
            return node
        named = self._named(description)
        node = named.pop() if len(named) == 1 and self._copies[description] == 1 else None
        return None if node is None or self._stated[node].adapters else node

    def _named(self, description: str) -> set[NodeName]:
        """Return the nodes that a description may mean.

        Two full names that differ are two hosts; a short one may be any of them.
        """
        host = host_of(description)
        if not host:
            return set()
        named = {*self._by_name.few_keys_of(host), *self._by_short.few_keys_of(host)}
        if short := short_name(host):
            named.update(self._by_name.few_keys_of(short))
        return named

    def _meant(self, guid: Guid) -> frozenset[NodeName]:
        """Return the nodes that may have an adapter which the description alone joins to none."""
        description = self._described.get(guid, "")
        if guid in self._by_adapter.sole or guid in self._by_adapter.several:
            return frozenset()
        named = self._named(description)
        is_clear = len(named) == 1 and self._copies[description] == 1
        silent = () if is_clear else (node for node in named if not self._stated[node].adapters)
        return frozenset(silent)

    def validate(self) -> Mapping[Guid, NodeName]:
        """Return the join as it is worked out from nothing, for a check against `nodes`."""
        meant = {guid: found for guid in self._described if (found := self._meant(guid))}
        require(meant == self._unclear, "a description is unclear that is not, or is not")
        return {g: node for g in self._described if (node := self._node(g)) is not None}
