"""Groups whose members all state the same key: NVLink clusters and the cliques inside them.

A node belongs to a multi-node NVLink domain as its GPUs say (`GpuFabric.member_of`); two cliques of
one cluster cannot reach each other. Fabric Manager may hand out new ids when it restarts, so names
are kept by majority of members, not by id.
"""

from topo.discovery.groups.naming import NameBook
from topo.discovery.node.record import Domain
from topo.model.ids import GroupName, NodeName

Key = tuple[str, ...]


class Cliques:
    """Who states which cluster and clique. Mutable; owned by the discovery state."""

    def __init__(self, domains: NameBook, cliques: NameBook) -> None:
        self._books = {1: domains, 2: cliques}
        self._of_node: dict[NodeName, Domain] = {}
        self._members: dict[Key, set[NodeName]] = {}
        self._names: dict[Key, GroupName] = {}

    def state(self, node: NodeName, domain: Domain | None) -> frozenset[NodeName]:
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

    def names(self, node: NodeName) -> tuple[GroupName, GroupName] | None:
        """The names of the node's cluster and clique, or None outside both."""
        domain = self._of_node.get(node)
        if domain is None:
            return None
        outer, inner = _keys(domain)
        return self._names[outer], self._names[inner]

    def _rename(self, key: Key) -> set[NodeName]:
        members = frozenset(self._members[key])
        if not members:
            del self._members[key]
            self._names.pop(key, None)
            return set()
        book = self._books[len(key)]
        name = book.name("/".join(key), members)
        if members >= book.base(name):
            book.record(name, members)
        if self._names.get(key) == name:
            return set()
        self._names[key] = name
        return set(members)


def _keys(domain: Domain | None) -> tuple[Key, ...]:
    if domain is None:
        return ()
    cluster, clique = domain
    return (cluster,), (cluster, str(clique))
