"""Generated names for groups without a given one: short, and kept while most members stay.

Result: the name of a group, given its members and a seed (the sorted member names, or the key that
all members state).

How: the default name is the kind and eight hex digits of a SHA-256 over the seed. Once a group is
*settled* (complete, or known by a key) its name goes on record with its members. A group that has
more than half of a record's members takes over the name on record.

Why that is right: the same facts give the same default on every master, so two masters agree
without talking. Two disjoint groups cannot both have more than half of one record, so a name is
never given twice. Half-seen or wrongly wired groups leave no record, so the order in which the
facts came does not show in the names.

Cost: O(members) to name or record a group.

Example: {a, b, c, d} is complete and recorded as dragonfly-1f2e3d4c. d is exchanged for e: {a, b,
c, e} has three of the four recorded members and keeps the name. {d, x} has one of four and gets a
name of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from topo.discovery.groups.inverted_index import InvertedIndex
from topo.model.ids import GroupName, Kind, NodeName, natural_key

Members = frozenset[NodeName]

_DIGITS = 8


@dataclass(frozen=True, slots=True)
class NameRecord:
    """A name and the members that it belongs to."""

    kind: Kind
    name: GroupName
    members: Members


class NameBook:
    """The names of all generated groups of one kind. Mutable; owned by the discovery state.

    Of the records of all kinds, it takes up those of its own.
    """

    def __init__(self, kind: Kind, records: Iterable[NameRecord] = ()) -> None:
        self._kind = kind
        self._records = {r.name: r.members for r in records if r.kind == kind}
        self._of_node: InvertedIndex[NodeName, GroupName] = InvertedIndex()
        for name, members in self._records.items():
            self._of_node.add(members, name)

    @property
    def records(self) -> tuple[NameRecord, ...]:
        """All records in natural order, for the state file."""
        order = sorted(self._records, key=natural_key)
        return tuple(NameRecord(self._kind, n, self._records[n]) for n in order)

    def name(self, seed: str, members: Members) -> GroupName:
        """Return the recorded name that more than half of its members brought here, else the
        default.

        O(members).
        """
        kept = self.kept(members)
        return kept if kept is not None else self.default(seed, members)

    def default(self, seed: str, members: Members) -> GroupName:
        """Return the name made from the seed; more digits where another group has it on record."""
        digest = sha256(f"{self._kind}\n{seed}".encode()).hexdigest()
        # Eight digits collide rarely; a holder without a member in common is another group.
        for digits in range(_DIGITS, len(digest), 4):
            name = GroupName(f"{self._kind}-{digest[:digits]}")
            holders = self._records.get(name)
            if holders is None or holders & members:
                return name
        return GroupName(f"{self._kind}-{digest}")

    def record(self, name: GroupName, members: Members) -> None:
        """Bind a name to a settled group; drop records that can no longer win a majority."""
        for other in self._of_node.keys_of_any(members):
            base = self._records[other]
            # The group has taken half of the members: the other record can never have a majority
            # again.
            if other != name and 2 * len(base & members) >= len(base):
                self._drop(other)
        if name in self._records:
            self._drop(name)
        self._records[name] = members
        self._of_node.add(members, name)

    def forget(self, node: NodeName) -> None:
        """Drop the records of which this node was the last member still known."""
        for name in tuple(self._of_node.keys_of(node)):
            self._of_node.discard((node,), name)
            if not any(name in self._of_node.keys_of(n) for n in self._records[name]):
                del self._records[name]

    def base(self, name: GroupName) -> Members:
        """Return the members on record under a name; empty without a record."""
        return self._records.get(name, frozenset())

    def kept(self, members: Members) -> GroupName | None:
        """Return the recorded name that more than half of its members brought here, or None."""
        votes = [
            (-len(self._records[name] & members), natural_key(name), name)
            for name in self._of_node.keys_of_any(members)
            if 2 * len(self._records[name] & members) > len(self._records[name])
        ]
        return min(votes)[2] if votes else None

    def _drop(self, name: GroupName) -> None:
        members = self._records.pop(name)
        self._of_node.discard([n for n in members if name in self._of_node.keys_of(n)], name)
