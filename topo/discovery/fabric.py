"""The validated graph of inter-node links: who is wired to whom, as both ends say.

A node states its own server UUID and the UUIDs it sees. An edge is *confirmed* when each end claims
the other's UUID. A claim that nobody returns is a suspect and joins nothing. Two nodes that state
the same UUID (a cloned board) make every claim on it ambiguous: then only a link that was
confirmed long before the newcomer came stays, and otherwise none, because a wrong neighbour is
worse than a missing one. This is the only module that imports networkx.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import networkx as nx

from topo.model.ids import NodeName, ServerUuid, natural_key

_NOTHING: frozenset[ServerUuid] = frozenset()
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
        self._component: dict[NodeName, Members] = {}

    def state(
        self,
        node: NodeName,
        local: ServerUuid | None,
        claims: Iterable[ServerUuid],
        now_s: float,
    ) -> frozenset[NodeName]:
        """Take what a node states of itself; the nodes whose component or suspects may differ now.

        O(claims of the node and of those that share a UUID with it), plus the components touched.
        """
        stated = frozenset(claims) if local is not None else _NOTHING
        known = self._claims.get(node)
        if self._local.get(node) == local and (known or _NOTHING) == stated:
            return frozenset()
        near = {node} if known is None else self._near(node)
        self._replace(node, local, stated)
        near |= self._near(node)
        return frozenset(near | self._rewire(near, now_s))

    def forget(self, node: NodeName, now_s: float) -> frozenset[NodeName]:
        """Drop a node and all it stated; the nodes whose component or suspects may differ now."""
        near = self.state(node, None, (), now_s)
        self._component.pop(node, None)
        if node in self._graph:
            self._graph.remove_node(node)
        return near

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
        """Whether every claim of this node is a link and nobody else states its UUID. O(1)."""
        local = self._local.get(node)
        if local is None:
            return True
        links = len(self._graph.adj[node]) if node in self._graph else 0
        return links == len(self._claims[node]) and len(self._owners[local]) == 1

    def suspects(self, node: NodeName) -> tuple[Suspect, ...]:
        """The claims of this node that join nothing, by UUID."""
        claims = self._claims.get(node)
        if not claims:
            return ()
        around = self._graph.adj[node] if node in self._graph else ()
        loose = claims - {self._local[n] for n in around}
        return tuple(
            Suspect(node, uuid, tuple(sorted(self._owners.get(uuid, ()), key=natural_key)))
            for uuid in sorted(loose)
        )

    def sharers(self, node: NodeName) -> tuple[NodeName, ...]:
        """All nodes that state this node's server UUID, if there are several; else none."""
        local = self._local.get(node)
        owners = self._owners.get(local, set()) if local is not None else set()
        return tuple(sorted(owners, key=natural_key)) if len(owners) > 1 else ()

    def edges(self) -> Iterator[tuple[Edge, float]]:
        """Every confirmed link with the time in seconds since when it is confirmed."""
        for a, b, data in self._graph.edges(data=True):
            yield (a, b), data["since_s"]

    def establish(self, edges: Mapping[Edge, float]) -> None:
        """Set since when existing links count as confirmed, as known from before a restart."""
        for (a, b), since_s in edges.items():
            if self._graph.has_edge(a, b):
                self._graph[a][b]["since_s"] = since_s

    def _near(self, node: NodeName) -> set[NodeName]:
        near = {node}
        local = self._local.get(node)
        if local is not None:
            near |= self._owners.get(local, set()) | self._claimants.get(local, set())
        for uuid in self._claims.get(node, frozenset()):
            near |= self._owners.get(uuid, set())
        return near

    def _replace(
        self, node: NodeName, local: ServerUuid | None, claims: frozenset[ServerUuid]
    ) -> None:
        before = self._local.pop(node, None)
        if before is not None:
            _discard(self._owners, before, node)
        for uuid in self._claims.pop(node, frozenset()):
            _discard(self._claimants, uuid, node)
        if local is None:
            return
        self._local[node] = local
        self._owners.setdefault(local, set()).add(node)
        self._claims[node] = claims
        for uuid in claims:
            self._claimants.setdefault(uuid, set()).add(node)

    def _rewire(self, nodes: set[NodeName], now_s: float) -> set[NodeName]:
        """Bring the edges of `nodes` up to date; every node whose component was touched."""
        wanted = {n: set(self._partners(n, now_s)) for n in nodes}
        touched: set[NodeName] = set()
        adjacent = self._graph.adj
        for node, partners in wanted.items():
            present = adjacent[node].keys() if node in adjacent else set()
            if present == partners:
                continue
            for other in set(present) - partners:
                self._graph.remove_edge(node, other)
                touched |= {node, other}
            for other in partners - present:
                self._graph.add_edge(node, other, since_s=now_s)
                touched |= {node, other}
        return self._recompute(touched) if touched else touched

    def _partners(self, node: NodeName, now_s: float) -> Iterator[NodeName]:
        for uuid in self._claims.get(node, ()):
            other = self._partner(node, uuid, now_s)
            if other is not None and self._partner(other, self._local[node], now_s) == node:
                yield other

    def _partner(self, node: NodeName, uuid: ServerUuid, now_s: float) -> NodeName | None:
        """The one node that this claim can mean: it states the UUID and claims this node back."""
        local = self._local[node]
        returned = [
            other
            for other in self._owners.get(uuid, ())
            if other != node and local in self._claims[other]
        ]
        if len(returned) == 1:
            return returned[0]
        elders = [other for other in returned if self._is_incumbent(node, other, now_s)]
        return elders[0] if len(elders) == 1 else None

    def _is_incumbent(self, node: NodeName, other: NodeName, now_s: float) -> bool:
        if not self._graph.has_edge(node, other):
            return False
        since_s: float = self._graph[node][other]["since_s"]
        return now_s - since_s >= self._incumbent_s

    def _recompute(self, touched: set[NodeName]) -> set[NodeName]:
        region = {n for node in touched for n in self.component(node)}
        left = set(region)
        while left:
            members = frozenset(self._reachable(left.pop()))
            for member in members:
                self._component[member] = members
            left -= members
            region |= members
        return region

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
