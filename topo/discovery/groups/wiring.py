"""The graph of confirmed links between nodes, and its connected components.

Result: for each node its component (a dragonfly, a ring, whatever the cables make) and the claims
that joined nothing.

A node states its own server UUID and the UUIDs that it sees, its *claims*. A link is *confirmed*
when each end claims the other's UUID. A claim that is not returned is a suspect and joins nothing.

Why that is right: a wrong neighbour is worse than a missing one, because a job would be placed
across a wire that is not there. One end alone may read a stale or foreign UUID; that both ends do
so about each other needs two mistakes that match. Two nodes that state the same UUID (a cloned
board) make every claim on it ambiguous: then only a link that was confirmed long before the clone
came stays, and otherwise none.

Cost: a statement touches its own claims and the nodes that share a UUID with it; `settle` searches
the components of touched nodes only, so a ring of n nodes costs O(n). The links are plain
dictionaries: a graph library's memory and time per node are more than a full build may take.

Example: a states A and sees B; b states B and sees A and C; c states C and sees nothing.
The link a-b is confirmed, the components are {a, b} and {c}, and b's claim on C is a suspect.
Once c reports that it sees B, b-c is confirmed and one component {a, b, c} is left.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from heapq import nsmallest

from topo.discovery.groups.inverted_index import PLACEHOLDER_ABOVE, InvertedIndex
from topo.model.errors import require
from topo.model.ids import NodeName, ServerUuid, natural_key

Members = frozenset[NodeName]
Edge = tuple[NodeName, NodeName]
_NO_LINKS: Mapping[NodeName, float] = {}


Suspect = tuple[ServerUuid, tuple[NodeName, ...]]
"""A claim that joins nothing, and who states that UUID but does not (unambiguously) claim back."""


class Wiring:
    """The graph of confirmed links, kept incrementally. Mutable; owned by the discovery state.

    What nodes state is taken at once; links and components follow in `settle`, once for many
    statements.
    """

    def __init__(self, incumbent_s: float) -> None:
        self._incumbent_s = incumbent_s
        self._links: dict[NodeName, dict[NodeName, float]] = {}
        self._local: dict[NodeName, ServerUuid] = {}
        self._claims: dict[NodeName, tuple[ServerUuid, ...]] = {}
        self._owners: InvertedIndex[ServerUuid, NodeName] = InvertedIndex()
        self._claimants: InvertedIndex[ServerUuid, NodeName] = InvertedIndex()
        self.shared_changed = False
        self._component: dict[NodeName, Members] = {}
        self._unsettled: set[NodeName] = set()
        self._established_s: dict[frozenset[NodeName], float] = {}

    def update(
        self, node: NodeName, local: ServerUuid | None, claims: Iterable[ServerUuid]
    ) -> None:
        """Take what a node states of itself, each claim once; without a UUID, it states nothing.

        O(claims of the node and of those that share a UUID with it).
        """
        # Without a UUID of its own a node cannot be claimed back, so its claims would confirm
        # nothing.
        stated = tuple(claims) if local is not None else ()
        if self._local.get(node) == local and self._claims.get(node, ()) == stated:
            return
        # Before and after: the old UUID and claims affect other nodes as much as the new ones.
        if node in self._local:
            self._unsettle(node)
            self._retract(node)
        if local is not None:
            self._assert(node, local, stated)
        self._unsettle(node)

    def settle(self, now_s: float) -> set[NodeName]:
        """Bring links and components up to date with all statements since the last time.

        The nodes whose links, suspects or component may differ now. Links that are confirmed for
        the first time count from `now_s`. A ring of n nodes costs O(n).
        """
        moved, self._unsettled = self._unsettled, set()
        # Sorted, so that the same statements give the same links in any order of arrival.
        touched = self._rewire(sorted(moved), now_s)
        # A component can only change where one of its nodes got or lost a link.
        region = touched.union(*(self._component.get(node, ()) for node in touched))
        moved |= region
        while region:
            members = self._reachable(region.pop())
            region -= members
            moved |= members
            self._join(members)
        return moved

    @contextmanager
    def established(self, edges: Iterable[Edge], since_s: float) -> Iterator[None]:
        """Count links as old while the nodes of an earlier process are settled again."""
        self._established_s = dict.fromkeys(map(frozenset, edges), since_s)
        yield
        self._established_s = {}

    def component(self, node: NodeName) -> Members:
        """Return all nodes wired together with this one, itself included."""
        return self._component.get(node) or frozenset((node,))

    def neighbours(self, node: NodeName) -> tuple[NodeName, ...]:
        """Return the nodes at the other ends of this node's confirmed links, in natural order."""
        return tuple(sorted(self._links.get(node, ()), key=natural_key))

    def neighbour_behind(self, node: NodeName, uuid: ServerUuid) -> NodeName | None:
        """Return the node at the other end of this claim, if the link is confirmed."""
        around = self._links.get(node, _NO_LINKS)
        sole = self._owners.sole.get(uuid)
        if sole is not None:
            return sole if sole in around else None
        return next((other for other in around if self._local[other] == uuid), None)

    def is_sound(self, node: NodeName) -> bool:
        """Return whether every claim of this node is a link. O(1)."""
        return len(self._links.get(node, ())) == len(self._claims.get(node, ()))

    def suspects(self, node: NodeName) -> tuple[Suspect, ...]:
        """Return the claims of this node that join nothing, by UUID."""
        around = self._links.get(node, _NO_LINKS)
        unconfirmed = set(self._claims.get(node, ())) - {self._local[other] for other in around}
        return tuple((uuid, self.owners(uuid)) for uuid in sorted(unconfirmed))

    def shared(self) -> Iterator[tuple[ServerUuid, int, tuple[NodeName, ...]]]:
        """Return every server UUID that several nodes state: how many, and the first of them."""
        self.shared_changed = False
        for uuid in sorted(self._owners.several):
            yield uuid, len(self._owners.several[uuid]), self.owners(uuid)

    def has(self, node: NodeName) -> bool:
        """Return whether a node states a server UUID at all: it has hardware for such links."""
        return node in self._local

    def owners(self, uuid: ServerUuid) -> tuple[NodeName, ...]:
        """Return the nodes that state this UUID, the first of them where it is a placeholder."""
        return tuple(nsmallest(PLACEHOLDER_ABOVE, self._owners.keys_of(uuid), key=natural_key))

    def edges(self) -> Iterator[Edge]:
        """Return every confirmed link, once."""
        for node, around in self._links.items():
            yield from ((node, other) for other in around if node < other)

    def validate(self) -> None:
        """Check that links have two ends that claim each other, and that components are
        those of links.
        """
        require(not self._unsettled, "statements were not settled")
        for one, two in self.edges():
            require(one in self._links[two], f"the link {one} to {two} has one end")
            claimed = (
                self._local[two] in self._claims[one] and self._local[one] in self._claims[two]
            )
            require(claimed, f"the link {one} to {two} is not claimed by both")
        for node, local in self._local.items():
            require(node in self._owners.keys_of(local), f"{node} is not an owner of its UUID")
            require(self.component(node) == self._reachable(node), f"component of {node} is wrong")
            for uuid in self._claims[node]:
                require(node in self._claimants.keys_of(uuid), f"a claim of {node} is not indexed")
        require(self._links.keys() <= self._local.keys(), "a link leads to a node that left")

    def _unsettle(self, node: NodeName) -> None:
        """Note the node and those whose claims its statement may decide."""
        self._unsettled.add(node)
        local = self._local.get(node)
        if local is None:
            return
        owners = self._owners.few_keys_of(local)
        # A placeholder UUID has no few owners: its claimants are not followed, or each report would
        # touch all of them.
        if owners:
            self._unsettled.update(owners, self._claimants.keys_of(local))
        for uuid in self._claims[node]:
            self._unsettled.update(self._owners.few_keys_of(uuid))

    def _retract(self, node: NodeName) -> None:
        local = self._local.pop(node)
        self.shared_changed |= local in self._owners.several
        self._owners.discard((local,), node)
        self._claimants.discard(self._claims.pop(node), node)

    def _assert(self, node: NodeName, local: ServerUuid, claims: tuple[ServerUuid, ...]) -> None:
        self._local[node] = local
        self._owners.add((local,), node)
        self.shared_changed |= local in self._owners.several
        self._claims[node] = claims
        self._claimants.add(claims, node)

    def _rewire(self, nodes: Collection[NodeName], now_s: float) -> set[NodeName]:
        """Bring the links of `nodes` up to date; return every node that got or lost one."""
        wanted = {node: self._partners(node, now_s) for node in nodes}
        touched: set[NodeName] = set()
        for node, partners in wanted.items():
            present = self._links.get(node, _NO_LINKS)
            # The common case: a report that changes no link.
            if len(present) == len(partners) and all(other in present for other in partners):
                continue
            for other in [other for other in present if other not in partners]:
                self._unlink(node, other)
                touched.update((node, other))
            for other in [other for other in partners if other not in present]:
                since_s = self._first_confirmed_s(node, other, now_s)
                self._links.setdefault(node, {})[other] = since_s
                self._links.setdefault(other, {})[node] = since_s
                touched.update((node, other))
        return touched

    def _unlink(self, node: NodeName, other: NodeName) -> None:
        for one, two in ((node, other), (other, node)):
            del self._links[one][two]
            if not self._links[one]:
                del self._links[one]

    def _partners(self, node: NodeName, now_s: float) -> list[NodeName]:
        """Return the nodes that this one is linked to, as both ends' claims say now."""
        partners = []
        for uuid in self._claims.get(node, ()):
            other = self._partner(node, uuid, now_s)
            if other is not None and self._partner(other, self._local[node], now_s) == node:
                partners.append(other)
        return partners

    def _partner(self, node: NodeName, uuid: ServerUuid, now_s: float) -> NodeName | None:
        """Return the one node that this claim can mean: it states the UUID and claims this node
        back.
        """
        local = self._local[node]
        sole = self._owners.sole.get(uuid)
        if sole is not None:
            return sole if sole != node and local in self._claims[sole] else None
        owners = set(self._owners.several.get(uuid, ()))
        is_placeholder = len(owners) > PLACEHOLDER_ABOVE
        if is_placeholder:
            owners &= self._known_around(node)
        returned = [o for o in owners if o != node and local in self._claims[o]]
        # One owner claims back: the clones of its UUID do not, so the link is unambiguous.
        if len(returned) == 1 and not is_placeholder:
            return returned[0]
        # Several claim back: only a link that was there long before the others came is believed.
        incumbents = [other for other in returned if self._is_incumbent(node, other, now_s)]
        return incumbents[0] if len(incumbents) == 1 else None

    def _known_around(self, node: NodeName) -> set[NodeName]:
        """Return the nodes that this one is, or before a restart was, linked to."""
        around = set(self._links.get(node, ()))
        return around.union(*(edge for edge in self._established_s if node in edge))

    def _is_incumbent(self, node: NodeName, other: NodeName, now_s: float) -> bool:
        since_s = self._links.get(node, _NO_LINKS).get(other)
        if since_s is None:
            since_s = self._first_confirmed_s(node, other, now_s)
        return now_s - since_s >= self._incumbent_s

    def _first_confirmed_s(self, node: NodeName, other: NodeName, now_s: float) -> float:
        """Return since when a new link holds: before a restart it may have held, too."""
        if not self._established_s:
            return now_s
        return self._established_s.get(frozenset((node, other)), now_s)

    def _join(self, members: set[NodeName]) -> None:
        """Note a component; a node without a link takes no memory."""
        if len(members) == 1:
            self._component.pop(next(iter(members)), None)
            return
        component = frozenset(members)
        for member in members:
            self._component[member] = component

    def _reachable(self, node: NodeName) -> set[NodeName]:
        """Return the nodes connected to this one, itself included."""
        found, front = {node}, [node]
        while front:
            for other in self._links.get(front.pop(), ()):
                if other not in found:
                    found.add(other)
                    front.append(other)
        return found
