"""Which machine of the cluster manager is which node, by names that both of them state.

Result: for each node its one machine, or None; and every machine that is no node, with the reason.

How: a machine's names are tried in the order of the join keys. The first name that exactly one
node carries decides. A name that several nodes carry decides nothing, two machines that lead to
one node are both set aside, and a machine that no key joins is reported.

Why that is right: the manager's groups are followed, so a wrong join would put a node among wrong
neighbours. Where the names leave a choice, nothing is guessed; it is reported to the operator.

Cost: O(names that changed) per node; O(machines) after an answer of the manager. A name that more
than eight machines or nodes carry is a placeholder and is not followed, or each report would look
at all of them.

Example, keys hostname then system_uuid: machine m1 states hostname=a, m2 hostname=x and
system_uuid=77, m3 hostname=z. Node a answers to hostname=a, node b to system_uuid=77.
m1 is a, m2 is b (no node is called x), m3 is listed as unjoined.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from topo.discovery.groups.inverted_index import PLACEHOLDER_ABOVE, InvertedIndex
from topo.discovery.groups.managed import Chain, ManagedGroups
from topo.model.conditions.tree import ConflictCondition
from topo.model.errors import require
from topo.model.forest import UnjoinedMachine
from topo.model.ids import GroupPath, NodeName, ServerUuid, natural_key
from topo.model.machine import NodeIdentity
from topo.model.observation import ManagedGroup, ManagedMachine, ManagedTopology

Named = str
"""A name as it is compared: `hostname=node-1`."""


@dataclass(frozen=True, slots=True)
class JoinFailure:
    """Why a machine belongs to no node.

    `code` is None where that is no conflict: the machine has no worker yet.
    """

    code: ConflictCondition | None
    machine: UnjoinedMachine
    nodes: tuple[NodeName, ...] = ()


def names_of(
    identity: NodeIdentity,
    server: ServerUuid | None,
    listed: Iterable[tuple[str, str]] = (),
) -> tuple[Named, ...]:
    """Return all names a node answers to, each once: its own, and those that the cluster lists it
    by.
    """
    stated = (
        ("node_name", identity.name),
        ("hostname", identity.hostname),
        ("internal_ip", identity.internal_ip),
        ("provider_id", identity.provider_id),
        ("system_uuid", identity.system_uuid),
        ("server_uuid", server),
        *listed,
    )
    return tuple(dict.fromkeys(_normalized_names(stated))) if listed else _normalized_names(stated)


def _normalized_names(stated: Iterable[tuple[str, str | None]]) -> tuple[Named, ...]:
    """Return the names in lower case: firmware and systems disagree about the case of UUIDs."""
    return tuple(
        [f"{key}={name}" for key, value in stated if value and (name := value.strip().lower())]
    )


class Machines:
    """The manager's last answer, joined to nodes. Mutable; owned by the discovery state.

    A machine that a later answer leaves out stays, marked missing, until `expire`. What nodes and
    the manager state is taken at once; who is who follows in `settle`, once for many statements.
    `listed_anew`: the machines, not only the nodes' names, differ since the last settling.
    `_joined` has what the keys found for each machine: its node, or the several (or no) nodes that
    they left.
    """

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys
        self.groups = ManagedGroups({}, {}, ())
        self._machines: dict[str, ManagedMachine] = {}
        self._missing_since_s: dict[str, float] = {}
        self._by_name: InvertedIndex[Named, str] = InvertedIndex()
        self._keyed: dict[str, tuple[Named, ...]] = {}
        self._names: dict[NodeName, tuple[Named, ...]] = {}
        self._nodes: InvertedIndex[Named, NodeName] = InvertedIndex()
        self._restated: list[tuple[Named, ...]] = []
        self.listed_anew = False
        self._joined: dict[str, tuple[NodeName, ...]] = {}
        self._of_node: InvertedIndex[NodeName, str] = InvertedIndex()
        self._failures: dict[str, JoinFailure] = {}

    @property
    def topology(self) -> ManagedTopology:
        """The kept inventory, missing machines included, for the state file."""
        groups = self.groups.by_id.values()
        return ManagedTopology(tuple(groups), tuple(self._machines.values()))

    @property
    def missing(self) -> tuple[ManagedMachine, ...]:
        """Machines held although the manager no longer lists them, in natural order."""
        return tuple(self._machines[i] for i in sorted(self._missing_since_s, key=natural_key))

    def replace(self, topology: ManagedTopology, now_s: float) -> None:
        """Take a full answer; O(machines)."""
        stated = {m.id: m for m in topology.machines}
        for back in self._missing_since_s.keys() & stated.keys():
            del self._missing_since_s[back]
        # A manager that forgets a machine for one answer must not move its node: it stays for a
        # while.
        for gone in self._machines.keys() - stated.keys():
            self._missing_since_s.setdefault(gone, now_s)
            stated[gone] = self._machines[gone]
        self._machines = stated
        self._regroup({group.id: group for group in topology.groups})

    def _regroup(self, stated: Mapping[str, ManagedGroup]) -> None:
        self.groups = ManagedGroups(stated, self.groups.by_id, self._machines.values())
        self._index()

    def expire(self, before_s: float) -> None:
        """Drop machines missing since before that time."""
        late = [i for i, since_s in self._missing_since_s.items() if since_s <= before_s]
        for machine in late:
            del self._missing_since_s[machine], self._machines[machine]
        if late:
            self._regroup(self.groups.stated)

    def update_names(self, node: NodeName, names: tuple[Named, ...]) -> None:
        """Learn (or with no names, forget) a node's names. O(names)."""
        before = self._names.get(node, ())
        if before == names:
            return
        # Machines that matched the old names and those that match the new ones are joined again.
        if before:
            self._nodes.discard(before, node)
            self._restated.append(before)
            del self._names[node]
        if names:
            self._names[node] = names
            self._nodes.add(names, node)
            self._restated.append(names)

    def names(self, node: NodeName) -> tuple[Named, ...]:
        """Return the names that a node answers to; none where it is not known."""
        return self._names.get(node, ())

    def settle(self) -> set[NodeName]:
        """Join what was stated since the last call; return the nodes whose machine changed.

        O(names stated), or O(machines) after an answer of the manager.
        """
        if self.listed_anew:
            machines: Iterable[str] = self._keyed
        else:
            machines = {m for names in self._restated for m in self._by_name.keys_of_any(names)}
        self.listed_anew, self._restated = False, []
        return self._rejoin(machines)

    def chain(self, node: NodeName) -> Chain:
        """Return the manager's groups around a node, outermost first; empty without a sure
        machine.
        """
        machine = self.machine(node)
        return self.groups.chain(machine.group_id) if machine is not None else ()

    def machine(self, node: NodeName) -> ManagedMachine | None:
        """Return the one machine that is this node, or None."""
        machine = self._of_node.sole.get(node)
        return None if machine is None else self._machines[machine]

    def are_in_one_group(self, nodes: Iterable[NodeName]) -> bool:
        """Return whether the manager lists each of these nodes, all in the same innermost group."""
        machines = [self.machine(node) for node in nodes]
        groups = {machine.group_id if machine is not None else None for machine in machines}
        return len(groups) == 1 and None not in groups

    def failures(self) -> tuple[JoinFailure, ...]:
        """Return every machine that is no node, in natural order of the machines."""
        order = sorted(self._failures, key=natural_key)
        self._failures = {machine: self._failures[machine] for machine in order}
        found = [*self._failures.values(), *self._joined_twice()]
        if self._of_node.several:
            found.sort(key=lambda failure: natural_key(failure.machine.id))
        return tuple(found)

    def validate(self) -> None:
        """Check that each machine is joined as its names say now, and that the indices follow."""
        require(self._joined.keys() == self._machines.keys(), "a machine was not joined")
        for machine, found in self._joined.items():
            require(
                found == self._matching_nodes(machine),
                f"the join of machine {machine} is out of date",
            )
            of_node = self._of_node.keys_of(found[0]) if len(found) == 1 else self._failures
            require(machine in of_node, f"the join of machine {machine} is not listed")
        for node, names in self._names.items():
            known = all(node in self._nodes.keys_of(name) for name in names)
            require(known, f"a name of {node} is not indexed")
        named = self._nodes.keys_of_any((*self._nodes.sole, *self._nodes.several))
        require(named <= self._names.keys(), "a name of a node that is gone is indexed")
        require(self._missing_since_s.keys() <= self._machines.keys(), "a dropped one is missing")

    def _joined_twice(self) -> Iterator[JoinFailure]:
        for node, ids in self._of_node.several.items():
            for machine in ids:
                others = ", ".join(sorted(set(ids) - {machine}, key=natural_key))
                text = f"machines {machine} and {others} both answer to node {node}"
                yield JoinFailure(
                    ConflictCondition.MACHINE_JOINED_TWICE, self._unjoined(machine, text), (node,)
                )

    def _index(self) -> None:
        """Index the machines' names again; a placeholder is no name."""
        keyed = {machine.id: self._names_to_join_by(machine) for machine in self._machines.values()}
        by_name = _index_names(keyed)
        shared = by_name.several.items()
        # Boards with the vendor's default UUID all state one name; it identifies none of them.
        placeholders = {name for name, machines in shared if len(machines) > PLACEHOLDER_ABOVE}
        if placeholders:
            keyed = {
                m: tuple(n for n in names if n not in placeholders) for m, names in keyed.items()
            }
            by_name = _index_names(keyed)
        self._keyed, self._by_name = keyed, by_name
        self._joined, self._of_node, self._failures = {}, InvertedIndex(), {}
        self.listed_anew = True

    def _names_to_join_by(self, machine: ManagedMachine) -> tuple[Named, ...]:
        """Return the names that a machine can be joined by, in the order in which they
        are tried.
        """
        stated = dict(machine.names)
        return _normalized_names([(key, stated.get(key)) for key in self._keys])

    def _rejoin(self, machines: Iterable[str]) -> set[NodeName]:
        affected: set[NodeName] = set()
        for machine in machines:
            found, before = self._matching_nodes(machine), self._joined.get(machine)
            if found == before:
                continue
            if before is not None:
                affected.update(before)
                self._drop_join(machine, before)
            affected.update(found)
            self._joined[machine] = found
            if len(found) == 1:
                self._of_node.add(found, machine)
            else:
                self._failures[machine] = self._explain(machine, found)
        return affected

    def _drop_join(self, machine: str, before: tuple[NodeName, ...]) -> None:
        if len(before) == 1:
            self._of_node.discard(before, machine)
        else:
            del self._failures[machine]

    def _matching_nodes(self, machine: str) -> tuple[NodeName, ...]:
        ambiguous: set[NodeName] = set()
        for name in self._keyed[machine]:
            found = self._nodes.sole.get(name)
            # Keys are in order of trust: the first unambiguous one decides, and later ones are not
            # asked.
            if found is not None:
                return (found,)
            # A name of several nodes decides nothing, but is reported if no later key decides.
            ambiguous.update(self._nodes.few_keys_of(name))
        return tuple(sorted(ambiguous, key=natural_key))

    def _explain(self, machine: str, nodes: tuple[NodeName, ...]) -> JoinFailure:
        if nodes:
            text = f"several nodes answer to machine {machine}: {', '.join(nodes)}"
            return JoinFailure(
                ConflictCondition.MACHINE_AMBIGUOUS, self._unjoined(machine, text), nodes
            )
        tried = ", ".join(self._keyed[machine])
        text = f"no node answers to {tried}" if tried else "the manager states no name to join by"
        return JoinFailure(None, self._unjoined(machine, text))

    def _unjoined(self, machine: str, text: str) -> UnjoinedMachine:
        stated = self._machines[machine]
        where = GroupPath(tuple(group.name for group in self.groups.chain(stated.group_id)))
        return UnjoinedMachine(machine, stated.names, where, text)


def _index_names(keyed: Mapping[str, tuple[Named, ...]]) -> InvertedIndex[Named, str]:
    by_name: InvertedIndex[Named, str] = InvertedIndex()
    for machine, names in keyed.items():
        by_name.add(names, machine)
    return by_name
