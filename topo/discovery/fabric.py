"""The validated graph of inter-node links: who is wired to whom, as both ends say.

A node states its own server UUID and the UUIDs it sees. An edge is *confirmed* when each end claims
the other's UUID. A claim that nobody returns is a suspect and joins nothing. Two nodes that state
the same UUID (a cloned board) make every claim on it ambiguous: then only a link that was
confirmed long before the newcomer came stays, and otherwise none, because a wrong neighbour is
worse than a missing one. This is the only module that imports networkx.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import nsmallest

import networkx as nx

from topo.model.ids import NodeName, ServerUuid, natural_key

_NOTHING: frozenset[ServerUuid] = frozenset()
CROWD = 8
"""A server UUID stated by more nodes than this is a placeholder: it can mean none of them, unless
an old link says which. Looking at all of them at each statement would cost O(nodes) a node."""
Members = frozenset[NodeName]
Edge = tuple[NodeName, NodeName]


@dataclass(frozen=True, slots=True)
class Suspect:
    """A claim that joins nothing: `owners` state the UUID but do not (unambiguously) claim back."""

    node: NodeName
    uuid: ServerUuid
    owners: tuple[NodeName, ...]


class Wiring:
    """The graph of confirmed links, kept incrementally. Mutable; owned by the discovery state."""

    def __init__(self, incumbent_s: float) -> None:
        self._incumbent_s = incumbent_s
        self._graph: nx.Graph[NodeName] = nx.Graph()
        self._local: dict[NodeName, ServerUuid] = {}
        self._claims: dict[NodeName, frozenset[ServerUuid]] = {}
        self._owners: dict[ServerUuid, set[NodeName]] = {}
        self._claimants: dict[ServerUuid, set[NodeName]] = {}
        self._shared: set[ServerUuid] = set()
        self.shared_changed = False
        self._component: dict[NodeName, Members] = {}
        self._touched: set[NodeName] = set()
        self._established_s: dict[frozenset[NodeName], float] = {}

    def state(
        self,
        node: NodeName,
        local: ServerUuid | None,
        claims: Iterable[ServerUuid],
        now_s: float,
    ) -> frozenset[NodeName]:
        """Take what a node states of itself; the nodes whose links or suspects may differ now.

        O(claims of the node and of those that share a UUID with it). Components follow in `settle`.
        """
        stated = frozenset(claims) if local is not None else _NOTHING
        known = self._claims.get(node)
        if self._local.get(node) == local and (known or _NOTHING) == stated:
            return frozenset()
        near = {node} if known is None else self._near(node)
        self._replace(node, local, stated)
        near |= self._near(node)
        if len(near) > 1 or node in self._graph:
            self._rewire(near, now_s)
        return frozenset(near)

    def settle(self) -> frozenset[NodeName]:
        """Find the components anew where links came or went; all nodes in them, old and new.

        Once for many statements: a ring of n nodes costs O(n), not O(n) for each of them.
        """
        region = {n for node in self._touched for n in self.component(node)}
        self._touched = set()
        left = set(region)
        while left:
            members = frozenset(self._reachable(left.pop()))
            for member in members:
                self._component[member] = members
            left -= members
            region |= members
        return frozenset(region)

    def forget(self, node: NodeName, now_s: float) -> frozenset[NodeName]:
        """Drop a node and all it stated; the nodes whose links or suspects may differ now."""
        near = self.state(node, None, (), now_s) | self.settle()
        self._component.pop(node, None)
        if node in self._graph:
            self._graph.remove_node(node)
        return near

    @contextmanager
    def established(self, edges: Iterable[Edge], since_s: float) -> Iterator[None]:
        """While the nodes of an earlier process are stated again, its links count as old ones."""
        self._established_s = dict.fromkeys(map(frozenset, edges), since_s)
        yield
        self._established_s = {}

    def component(self, node: NodeName) -> Members:
        """All nodes wired together with this one, itself included."""
        return self._component.get(node, frozenset((node,)))

    def neighbours(self, node: NodeName) -> tuple[NodeName, ...]:
        """The nodes at the other ends of this node's confirmed links, in natural order."""
        if node not in self._graph:
            return ()
        return tuple(sorted(self._graph.neighbors(node), key=natural_key))

    def neighbour_behind(self, node: NodeName, uuid: ServerUuid) -> NodeName | None:
        """The node at the other end of this claim, if the link is confirmed."""
        around = self._graph.adj[node] if node in self._graph else ()
        return next((other for other in around if self._local[other] == uuid), None)

    def is_sound(self, node: NodeName) -> bool:
        """Whether every claim of this node is a link. O(1)."""
        links = len(self._graph.adj[node]) if node in self._graph else 0
        return links == len(self._claims.get(node, ()))

    def suspects(self, node: NodeName) -> tuple[Suspect, ...]:
        """The claims of this node that join nothing, by UUID."""
        claims = self._claims.get(node)
        if not claims:
            return ()
        around = self._graph.adj[node] if node in self._graph else ()
        loose = claims - {self._local[n] for n in around}
        return tuple(
            Suspect(node, uuid, tuple(nsmallest(CROWD, self._owners.get(uuid, ()), natural_key)))
            for uuid in sorted(loose)
        )

    def shared(self) -> Iterator[tuple[ServerUuid, int, tuple[NodeName, ...]]]:
        """Every server UUID that several nodes state: how many, and the first of them."""
        self.shared_changed = False
        for uuid in sorted(self._shared):
            owners = self._owners[uuid]
            yield uuid, len(owners), tuple(nsmallest(CROWD, owners, key=natural_key))

    def edges(self) -> tuple[Edge, ...]:
        """Every confirmed link."""
        return tuple(self._graph.edges)

    def _near(self, node: NodeName) -> set[NodeName]:
        """The node and those whose claims its statement may decide; a crowd decides nothing."""
        near = {node}
        local = self._local.get(node)
        if local is not None and len(self._owners[local]) <= CROWD:
            near |= self._owners[local] | self._claimants.get(local, set())
        for uuid in self._claims.get(node, frozenset()):
            owners = self._owners.get(uuid, set())
            if len(owners) <= CROWD:
                near |= owners
        return near

    def _replace(
        self, node: NodeName, local: ServerUuid | None, claims: frozenset[ServerUuid]
    ) -> None:
        before = self._local.pop(node, None)
        if before is not None:
            _discard(self._owners, before, node)
            self._note_shared(before)
        for uuid in self._claims.pop(node, frozenset()):
            _discard(self._claimants, uuid, node)
        if local is None:
            return
        self._local[node] = local
        self._owners.setdefault(local, set()).add(node)
        self._note_shared(local)
        self._claims[node] = claims
        for uuid in claims:
            self._claimants.setdefault(uuid, set()).add(node)

    def _note_shared(self, uuid: ServerUuid) -> None:
        is_shared = len(self._owners.get(uuid, ())) > 1
        self.shared_changed |= is_shared or uuid in self._shared
        if is_shared:
            self._shared.add(uuid)
        else:
            self._shared.discard(uuid)

    def _rewire(self, nodes: set[NodeName], now_s: float) -> None:
        """Bring the edges of `nodes` up to date, and note every node that got or lost one."""
        wanted = {n: set(self._partners(n, now_s)) for n in nodes}
        adjacent = self._graph.adj
        for node, partners in wanted.items():
            present = adjacent[node].keys() if node in adjacent else set()
            if present == partners:
                continue
            for other in set(present) - partners:
                self._graph.remove_edge(node, other)
                self._touched |= {node, other}
            for other in partners - present:
                since_s = self._established_s.get(frozenset((node, other)), now_s)
                self._graph.add_edge(node, other, since_s=since_s)
                self._touched |= {node, other}

    def _partners(self, node: NodeName, now_s: float) -> Iterator[NodeName]:
        for uuid in self._claims.get(node, ()):
            other = self._partner(node, uuid, now_s)
            if other is not None and self._partner(other, self._local[node], now_s) == node:
                yield other

    def _partner(self, node: NodeName, uuid: ServerUuid, now_s: float) -> NodeName | None:
        """The one node that this claim can mean: it states the UUID and claims this node back."""
        owners = self._owners.get(uuid, set())
        crowded = len(owners) > CROWD
        if crowded:
            owners = owners & self._known_around(node)
        local = self._local[node]
        returned = [o for o in owners if o != node and local in self._claims[o]]
        if len(returned) == 1 and not crowded:
            return returned[0]
        elders = [other for other in returned if self._is_incumbent(node, other, now_s)]
        return elders[0] if len(elders) == 1 else None

    def _known_around(self, node: NodeName) -> set[NodeName]:
        """The nodes that this one is, or before a restart was, linked to."""
        around = set(self._graph.adj[node]) if node in self._graph else set()
        return around.union(*(edge for edge in self._established_s if node in edge))

    def _is_incumbent(self, node: NodeName, other: NodeName, now_s: float) -> bool:
        if self._graph.has_edge(node, other):
            since_s: float = self._graph[node][other]["since_s"]
        else:
            since_s = self._established_s.get(frozenset((node, other)), now_s)
        return now_s - since_s >= self._incumbent_s

    def _reachable(self, node: NodeName) -> set[NodeName]:
        """The nodes connected to this one; walked here because components are small and many."""
        found, front = {node}, [node]
        adjacent = self._graph.adj
        while front:
            for other in adjacent[front.pop()]:
                if other not in found:
                    found.add(other)
                    front.append(other)
        return found


def _discard(index: dict[ServerUuid, set[NodeName]], uuid: ServerUuid, node: NodeName) -> None:
    index[uuid].discard(node)
    if not index[uuid]:
        del index[uuid]
