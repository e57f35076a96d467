"""Which machine of the cluster manager is which node, by names that both of them state.

The keys are tried in order; a key decides when exactly one node carries the machine's value. A
value carried by several nodes decides nothing, two machines that lead to one node are both set
aside, and a machine that no key joins is reported: nothing is guessed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from topo.model.forest import UnjoinedMachine
from topo.model.ids import GroupPath, NodeName, ServerUuid, natural_key
from topo.model.machine import NodeIdentity
from topo.model.observation import ManagedGroup, ManagedMachine, ManagedTopology

Named = tuple[str, str]
"""(join key, value as compared)."""
CROWD = 8
"""A value that more machines or nodes carry is a placeholder (boards without a serial number share
one): it decides nothing, and looking at all carriers at each change would cost O(nodes)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a machine belongs to no node, for the list of conflicts and for that of the unjoined."""

    code: str
    machine: UnjoinedMachine
    nodes: tuple[NodeName, ...] = ()


Joined = NodeName | frozenset[NodeName]
"""What the keys found for a machine: its node, or the several (or no) nodes that they left."""


def names_of(identity: NodeIdentity, server: ServerUuid | None) -> tuple[Named, ...]:
    """All names a node answers to, in no particular order."""
    stated = {
        "node_name": identity.name,
        "hostname": identity.hostname,
        "internal_ip": identity.internal_ip,
        "provider_id": identity.provider_id,
        "system_uuid": identity.system_uuid,
        "server_uuid": server or "",
    }
    return tuple((key, _folded(value)) for key, value in stated.items() if value)


def _folded(value: str) -> str:
    """Names compare without case: firmware and operating systems disagree about UUID case."""
    return value.strip().lower()


class Machines:
    """The manager's last answer, joined to nodes. Mutable; owned by the discovery state.

    A machine that a later answer leaves out stays, marked missing, until `expire`.
    """

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys
        self._groups: dict[str, ManagedGroup] = {}
        self._machines: dict[str, ManagedMachine] = {}
        self._missing_since_s: dict[str, float] = {}
        self._by_name: dict[Named, set[str]] = {}
        self._names: dict[NodeName, tuple[Named, ...]] = {}
        self._nodes: dict[Named, set[NodeName]] = {}
        self._joined: dict[str, Joined] = {}
        self._keyed: dict[str, tuple[Named, ...]] = {}
        self._failures: dict[str, Failure | None] = {}
        self._held: set[str] = set()
        self._of_node: dict[NodeName, set[str]] = {}
        self._twinned: set[NodeName] = set()
        self._chains: dict[str, tuple[ManagedGroup, ...]] = {}

    @property
    def topology(self) -> ManagedTopology:
        """What is held now, missing machines included, for the state file."""
        return ManagedTopology(tuple(self._groups.values()), tuple(self._machines.values()))

    @property
    def held(self) -> frozenset[str]:
        """The ids of groups that the manager no longer states and a missing machine keeps."""
        return frozenset(self._held)

    @property
    def missing(self) -> tuple[ManagedMachine, ...]:
        """Machines held although the manager no longer lists them, in natural order."""
        return tuple(self._machines[i] for i in sorted(self._missing_since_s, key=natural_key))

    def replace(self, topology: ManagedTopology, now_s: float) -> None:
        """Take a full answer; O(machines)."""
        stated = {m.id: m for m in topology.machines}
        for back in self._missing_since_s.keys() & stated.keys():
            del self._missing_since_s[back]
        for gone in self._machines.keys() - stated.keys():
            self._missing_since_s.setdefault(gone, now_s)
            stated[gone] = self._machines[gone]
        known = self._groups | {g.id: g for g in topology.groups}
        self._machines = stated
        self._keep_groups(known, {g.id for g in topology.groups})
        self._index()

    def _keep_groups(self, known: dict[str, ManagedGroup], stated: set[str]) -> None:
        """The groups stated last, and those that only missing machines hold in place."""
        self._groups, self._chains = known, {}
        above = {g.id for m in self._machines.values() for g in self.ancestors(m.group_id)}
        self._held = above - stated
        self._groups = {i: g for i, g in known.items() if i in stated or i in above}
        self._chains = {}

    def expire(self, before_s: float) -> bool:
        """Drop machines missing since before that time; True if there were any."""
        late = [i for i, since_s in self._missing_since_s.items() if since_s <= before_s]
        for machine in late:
            del self._missing_since_s[machine], self._machines[machine]
        if late:
            self._keep_groups(self._groups, self._groups.keys() - self._held)
            self._index()
        return bool(late)

    def know(self, node: NodeName, names: tuple[Named, ...]) -> set[NodeName]:
        """Learn (or with no names, forget) a node's names; the nodes whose machine differs now."""
        before = self._names.get(node, ())
        if before == names:
            return set()
        near = self._near(before)
        for name in before:
            carriers = self._nodes[name]
            carriers.discard(node)
            if not carriers:
                del self._nodes[name]
        self._names.pop(node, None)
        if names:
            self._names[node] = names
            for name in names:
                self._nodes.setdefault(name, set()).add(node)
        return self._rejoin(near | self._near(names))

    def _near(self, names: Iterable[Named]) -> set[str]:
        """The machines that a change of these names may decide; what a crowd carries does not."""
        return {
            machine
            for name in names
            if len(self._nodes.get(name, ())) <= CROWD
            for machine in self._by_name.get(name, ())
        }

    def chain(self, node: NodeName) -> tuple[ManagedGroup, ...]:
        """The manager's groups around a node, outermost first; empty without a sure machine."""
        machine = self.machine(node)
        return self.ancestors(machine.group_id) if machine is not None else ()

    def machine(self, node: NodeName) -> ManagedMachine | None:
        """The one machine that is this node, or None."""
        ids = self._of_node.get(node)
        return self._machines[next(iter(ids))] if ids and len(ids) == 1 else None

    def are_in_one_group(self, nodes: Iterable[NodeName]) -> bool:
        """Whether the manager lists each of these nodes, all in the same innermost group."""
        machines = [self.machine(node) for node in nodes]
        groups = {machine.group_id if machine is not None else None for machine in machines}
        return len(groups) == 1 and None not in groups

    def ancestors(self, group_id: str | None) -> tuple[ManagedGroup, ...]:
        """The chain of groups down to this one, outermost first; worked out once per answer."""
        if group_id is None:
            return ()
        if group_id not in self._chains:
            self._chains[group_id] = self._climb(group_id)
        return self._chains[group_id]

    def _climb(self, group_id: str | None) -> tuple[ManagedGroup, ...]:
        chain: list[ManagedGroup] = []
        seen: set[str] = set()
        while group_id is not None and group_id in self._groups and group_id not in seen:
            seen.add(group_id)
            chain.append(self._groups[group_id])
            group_id = chain[-1].parent_id
        return tuple(reversed(chain))

    def census(self) -> Mapping[str, int]:
        """Machines listed in each group or below it, by group id."""
        counts: dict[str, int] = {}
        for machine in self._machines.values():
            for group in self.ancestors(machine.group_id):
                counts[group.id] = counts.get(group.id, 0) + 1
        return counts

    def failures(self) -> tuple[Failure, ...]:
        """Every machine that is no node, in natural order of the machines."""
        found = [f for f in map(self._failure, self._joined) if f is not None]
        twins = list(self._twins())
        if not twins:
            return tuple(found)
        return tuple(sorted([*found, *twins], key=lambda f: natural_key(f.machine.id)))

    def _twins(self) -> Iterator[Failure]:
        for node in self._twinned:
            ids = self._of_node[node]
            for machine in ids:
                others = ", ".join(sorted(ids - {machine}, key=natural_key))
                text = f"machines {machine} and {others} both answer to node {node}"
                yield Failure("machine-joined-twice", self._unjoined(machine, text), (node,))

    def _index(self) -> None:
        order = sorted(self._machines, key=natural_key)
        carriers: dict[Named, set[str]] = {}
        folded: dict[str, dict[str, str]] = {}
        for machine in order:
            names = self._machines[machine].names
            folded[machine] = {key: _folded(value) for key, value in names if value.strip()}
            for name in folded[machine].items():
                carriers.setdefault(name, set()).add(machine)
        self._by_name = {name: ids for name, ids in carriers.items() if len(ids) <= CROWD}
        self._keyed = {
            machine: tuple(
                (key, names[key])
                for key in self._keys
                if key in names and (key, names[key]) in self._by_name
            )
            for machine, names in folded.items()
        }
        self._joined, self._of_node, self._failures, self._twinned = {}, {}, {}, set()
        self._rejoin(order)

    def _rejoin(self, machines: Iterable[str]) -> set[NodeName]:
        affected: set[NodeName] = set()
        for machine_id in machines:
            result = self._join(machine_id)
            before = self._joined.get(machine_id)
            if result == before:
                continue
            affected |= {
                n for left in (before, result) if isinstance(left, frozenset) for n in left
            }
            if isinstance(before, str):
                affected.add(before)
                self._of_node[before].discard(machine_id)
                self._count(before)
            self._joined[machine_id] = result
            self._failures.pop(machine_id, None)
            if isinstance(result, str):
                affected.add(result)
                self._of_node.setdefault(result, set()).add(machine_id)
                self._count(result)
        return affected

    def _count(self, node: NodeName) -> None:
        """Note whether a node has no machine, one, or several."""
        number = len(self._of_node[node])
        if number == 0:
            del self._of_node[node]
        if number > 1:
            self._twinned.add(node)
        else:
            self._twinned.discard(node)

    def _join(self, machine: str) -> Joined:
        ambiguous: frozenset[NodeName] = frozenset()
        for name in self._keyed[machine]:
            found = self._nodes.get(name)
            if found and len(found) == 1:
                return next(iter(found))
            if found and len(found) <= CROWD:
                ambiguous |= found
        return ambiguous

    def _failure(self, machine: str) -> Failure | None:
        if machine not in self._failures:
            left = self._joined[machine]
            found = self._explained(machine, left) if isinstance(left, frozenset) else None
            self._failures[machine] = found
        return self._failures[machine]

    def _explained(self, machine: str, left: frozenset[NodeName]) -> Failure:
        if left:
            nodes = tuple(sorted(left, key=natural_key))
            text = f"several nodes answer to machine {machine}: {', '.join(nodes)}"
            return Failure("machine-ambiguous", self._unjoined(machine, text), nodes)
        tried = ", ".join(f"{key}={value}" for key, value in self._keyed[machine])
        text = f"no node answers to {tried}" if tried else "the manager states no name to join by"
        return Failure("machine-unjoined", self._unjoined(machine, text))

    def _unjoined(self, machine: str, text: str) -> UnjoinedMachine:
        stated = self._machines[machine]
        where = GroupPath(tuple(group.name for group in self.ancestors(stated.group_id)))
        return UnjoinedMachine(machine, stated.names, where, text)
