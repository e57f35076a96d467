"""NVLink domains and super pods: groups whose members all state the same key, and their names.

Result: for each node the kind and name of its NVLink cluster and of the clique inside it, or those
of its Ascend super pod and of the rack inside, where one is stated, or none.

A node belongs to a multi-node NVLink domain as its GPUs say (`GpuFabric.member_of`), so membership
is equality of keys: a kind with the clusterUuid, for the clique also with the cliqueId. Two
cliques of one cluster cannot reach each other over NVLink. Racks of a super pod can, through the
switches above; their numbers count inside of it.

Why names are not keys: Fabric Manager may hand out new ids when it restarts. A name therefore
follows the majority of the members (see `naming`) and ids only tell who belongs together. The
numbers of a super pod and of a rack are what their operators call them, and are their names.

Cost: O(members of the keys that a node leaves and joins); nothing where it states the same again.

Example: a, b and c state (u1, 7); the clique is called by a hash of "u1/7". Fabric Manager restarts
and they state (u2, 9), one after the other. With two of the three members the new key takes over
the old name, so readers see no rename.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from topo.discovery.groups.naming import NameBook, NameRecord
from topo.model.errors import require
from topo.model.ids import (
    NVLINK_CLIQUE,
    NVLINK_DOMAIN,
    RACK,
    SUPER_POD,
    GroupName,
    Kind,
    NodeName,
)
from topo.model.machine import FabricDomain, FabricKind


class FabricGroup(NamedTuple):
    """A group that GPUs state: its kind and its name."""

    kind: Kind
    name: GroupName


class _Key(NamedTuple):
    """What the members of a group state alike: its kind, and the words that name it."""

    kind: Kind
    words: tuple[str, ...]


_LEVELS: Mapping[FabricKind, tuple[Kind, ...]] = {
    FabricKind.NVLINK: (NVLINK_DOMAIN, NVLINK_CLIQUE),
    FabricKind.SUPER_POD: (SUPER_POD, RACK),
}
"""The kinds of the groups that a domain is, outermost first."""


class NvlinkDomains:
    """The cluster and clique that each node states. Mutable; owned by the discovery state."""

    def __init__(self, records: Collection[NameRecord]) -> None:
        self._books = {kind: NameBook(kind, records) for kind in _LEVELS[FabricKind.NVLINK]}
        self._of_node: dict[NodeName, FabricDomain] = {}
        self._members: dict[_Key, set[NodeName]] = {}
        self._names: dict[_Key, GroupName] = {}

    @property
    def records(self) -> tuple[NameRecord, ...]:
        """All name records, for the state file."""
        return tuple(record for book in self._books.values() for record in book.records)

    def restore(self, domains: Mapping[NodeName, FabricDomain | None]) -> None:
        """Take what all nodes stated before a restart, so that names have their majorities.

        One by one, the first half of a group would take a new name and drop the old record.
        """
        for node, domain in domains.items():
            if domain is not None:
                self._of_node[node] = domain
            for key in _keys(domain):
                self._members.setdefault(key, set()).add(node)
        for key in sorted(self._members):
            self._rename(key)

    def update(self, node: NodeName, domain: FabricDomain | None) -> frozenset[NodeName]:
        """Take what a node states; the nodes whose groups may be named differently now."""
        before = self._of_node.get(node)
        if before == domain:
            return frozenset()
        touched = {node}
        for key in _keys(before):
            self._members[key].discard(node)
            touched |= self._rename(key)
        self._of_node.pop(node, None)
        if domain is not None:
            self._of_node[node] = domain
        for key in _keys(domain):
            self._members.setdefault(key, set()).add(node)
            touched |= self._rename(key)
        return frozenset(touched)

    def forget(self, node: NodeName) -> frozenset[NodeName]:
        """Drop a node and its share in names; the nodes whose groups may be named differently."""
        touched = self.update(node, None)
        for book in self._books.values():
            book.forget(node)
        return touched

    def groups(self, node: NodeName) -> tuple[FabricGroup, ...]:
        """Return the node's cluster and clique, or its super pod and rack; none outside."""
        keys = _keys(self._of_node.get(node))
        return tuple([FabricGroup(key.kind, self._names[key]) for key in keys])

    def super_pod(self, node: NodeName) -> GroupName | None:
        """Return the super pod that the node's NPUs state, None in none."""
        groups = self.groups(node)
        return groups[0].name if groups and groups[0].kind == SUPER_POD else None

    def members(self, node: NodeName) -> frozenset[NodeName]:
        """Return the nodes of the node's cluster, itself included. O(members)."""
        domain = self._of_node.get(node)
        return frozenset((node,) if domain is None else self._members[_keys(domain)[0]])

    def members_of(self, super_pod: GroupName) -> frozenset[NodeName]:
        """Return the nodes that state a super pod. O(members)."""
        return frozenset(self._members.get(_Key(SUPER_POD, (super_pod,)), ()))

    def validate(self) -> None:
        """Check that members state the key, and that every key with members has a name."""
        stated: dict[_Key, set[NodeName]] = {}
        for node, domain in self._of_node.items():
            for key in _keys(domain):
                stated.setdefault(key, set()).add(node)
        require(stated == self._members, "members of an NVLink domain do not state it")
        require(stated.keys() == self._names.keys(), "an NVLink domain has no name, or a gone one")

    def _rename(self, key: _Key) -> set[NodeName]:
        members = frozenset(self._members[key])
        if not members:
            del self._members[key]
            self._names.pop(key, None)
            return set()
        name = self._name(key, members)
        if self._names.get(key) == name:
            return set()
        self._names[key] = name
        return set(members)

    def _name(self, key: _Key, members: frozenset[NodeName]) -> GroupName:
        book = self._books.get(key.kind)
        if book is None:
            return _called(key.words)
        name = book.name("/".join(key.words), members)
        # A key that is still losing or gaining members must not shrink the record it is named by.
        if members >= book.base(name):
            book.record(name, members)
        return name


def _keys(domain: FabricDomain | None) -> tuple[_Key, ...]:
    if domain is None:
        return ()
    inner = domain.rack if domain.kind is FabricKind.SUPER_POD else str(domain.clique)
    words = (domain.cluster, inner) if inner else (domain.cluster,)
    levels = enumerate(_LEVELS[domain.kind][: len(words)], start=1)
    return tuple([_Key(kind, words[:number]) for number, kind in levels])


def super_pod_names(numbers: Sequence[int]) -> tuple[GroupName, ...]:
    """Return what the super pod of a number and the rack of a second one in it are called."""
    words = [f"{SUPER_POD}-{each}" for each in numbers[:1]] + [str(each) for each in numbers[1:]]
    return tuple(_called(words[:number]) for number in range(1, len(words) + 1))


def _called(words: Iterable[str]) -> GroupName:
    """Return the name of a group that has one: `superpod-3`, `superpod-3-rack-12`."""
    return GroupName(f"-{RACK}-".join(words))
