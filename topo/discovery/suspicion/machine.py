"""Links and nodes that cannot be trusted: events of days in, suspicions out, with their evidence.

A link is suspected when the score of what it did (`record`, `evidence`) reaches `NAMED`, until it
falls below `LIFTED` or an operator clears it. Suspicion makes no node NotReady and moves nothing.

What weighs: a link that was up and is seen down or degraded, and counters of errors that rose. What
does not, because planned work looks the same:

- the first `QUIET_S` after a boot, in which links train, and after a node is seen first;
- a counter that is lower than before, or of another boot: it was reset, and is only remembered;
- a cable that fell because the server at its other end booted (`FORGIVEN_S`);
- all links of a GPU that fall at once: the GPU was reset (`link_states.fallen`).

A port of an adapter that fell and is still down after `DOWN_S` is told as such, for nothing else
says so: it is suspected until it is seen up, whatever its score. Ports that were never up are not.
One that was up before a boot, or fell while links train, is told when that time is over.

What happens to `TOGETHER` or more links of a node in one reading is one event of the node (its
name has no link, ""): four cables do not break at once. A count that is read for the first time has
no age; it weighs as if it had risen evenly over `LIFETIME_S`, so the long past of a healthy link
names nobody: 505 recoveries are 2.4, ten are 0.05.

Bounded: `MAX_LINKS` link ends, `MAX_LINKS_OF_NODE` of one node; further ones are not followed. Pure
and deterministic. Cost: O(links of the node) for a reading that differs, else O(1).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from math import inf, log

from topo.discovery.suspicion import link_states
from topo.discovery.suspicion.evidence import (
    FLAP,
    HALF_LIFE_S,
    HIGHEST,
    KINDS,
    LIFETIME_S,
    SLOWDOWN,
)
from topo.discovery.suspicion.memory import SuspicionMemory
from topo.discovery.suspicion.node_links import (
    DOWN_S,
    TOGETHER,
    WHOLE_NODE,
    Fall,
    NodeLinks,
    Quarantine,
)
from topo.discovery.suspicion.record import LinkRecord, Rise
from topo.model.errors import require
from topo.model.forest import NodeSuspicion
from topo.model.ids import BootId, NodeName, ServerUuid
from topo.model.isolation import ObjectError, attempt
from topo.model.machine import NodeFacts
from topo.model.observation import (
    Event,
    LinksCounted,
    OperatorAct,
    OperatorDecided,
    WorkerReported,
)

QUIET_S = 600.0
"""After a boot; the links of a server train within minutes."""
FORGIVEN_S = 1800.0
"""How long a server with eight GPUs takes at most from its fall to its first report."""
MAX_LINKS_OF_NODE = 512
MAX_LINKS = 100_000
_OF_A_LIFETIME = HALF_LIFE_S / log(2) / LIFETIME_S
"""The part of a count that an even rise over `LIFETIME_S` has left by now: the integral of 2^(-t /
HALF_LIFE_S) over the time, by its length."""

Rises = dict[str, Rise]
"""What happened, by link."""


class Suspicions:
    """Events in, the nodes whose suspicion differs out. Mutable; owned by the discovery state."""

    def __init__(self) -> None:
        self._nodes: dict[NodeName, NodeLinks] = {}
        self._owner: dict[ServerUuid, NodeName] = {}
        self._due: list[tuple[float, NodeName, str]] = []
        """A heap with one entry for each record that time will change."""
        self._fell: list[tuple[float, NodeName]] = []
        """A heap: when nodes with ports that fell are looked at again."""
        self._changed: set[NodeName] = set()
        self._number = 0
        self._now_s = -inf
        self.suspected: dict[NodeName, NodeSuspicion] = {}
        """What is held against nodes; without those against which there is nothing."""
        self.errors: dict[NodeName, ObjectError] = {}
        """Why the last statement of nodes could not be used."""
        self.version = 0
        """Grows when `suspected` differs."""

    def advance(self, now_s: float, *events: Event) -> frozenset[NodeName]:
        """Take events that happened by `now_s` (monotonic seconds).

        Return the nodes of which `suspected` differs. Events about other things change nothing.
        """
        self._now_s = now_s = max(now_s, self._now_s)
        self._pass_time(now_s)
        for event in events:
            if isinstance(event, WorkerReported):
                self._alone(event.facts.identity.name, partial(self._see, event.facts, now_s))
            elif isinstance(event, LinksCounted):
                self._alone(event.node, partial(self._count, event, now_s))
            elif isinstance(event, OperatorDecided):
                self._decide(event, now_s)
        self._pass_time(now_s)
        if not self._changed:
            return frozenset()
        changed, self._changed = self._changed, set()
        differing = frozenset(filter(self._tell, changed))
        self.version += bool(differing)
        return differing

    def _alone(self, node: NodeName, step: Callable[[], None]) -> None:
        """Take what one node says. An error of that is noted; what is held against nodes stays."""
        found = attempt(step)
        if isinstance(found, ObjectError):
            self.errors[node] = found
        else:
            self.errors.pop(node, None)

    # -- what is read ------------------------------------------------------------------------

    def _see(self, facts: NodeFacts, now_s: float) -> None:
        name, boot = facts.identity.name, facts.identity.boot_id
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = NodeLinks(boot, quiet_until_s=now_s + QUIET_S)
        before, node.seen = node.seen, facts
        node.is_gone = False
        if node.down:
            self._note_return(name, facts, now_s)
        if facts.peers is not None:
            self._note_owner(name, facts.peers.local)
        if node.boot != boot:
            node.boot, node.quiet_until_s = boot, now_s + QUIET_S
            self._forgive(before, facts, now_s)
        if before is None or link_states.is_same(before, facts):
            return
        down, worse = link_states.fallen(before, facts)
        self._note_down(name, link_states.fallen_ports(before, facts, down), now_s)
        if now_s >= node.quiet_until_s:
            self._note_falls(name, down, before, now_s)
            self._note(name, SLOWDOWN, _each_once(SLOWDOWN, worse), now_s)

    def _note_down(self, name: NodeName, rates: Mapping[str, float], now_s: float) -> None:
        """Note ports that fell, by the rate at which each ran; in a quiet time, from its end on.

        No other part names a port that does not come up after a boot.
        """
        node = self._nodes[name]
        if rates:
            at_s, room = max(now_s, node.quiet_until_s), max(0, MAX_LINKS_OF_NODE - len(node.down))
            node.down |= {link: Fall(at_s, rates[link]) for link in list(rates)[:room]}
            heappush(self._fell, (at_s + DOWN_S, name))

    def _note_falls(
        self, name: NodeName, fell: Sequence[str], before: NodeFacts, now_s: float
    ) -> None:
        """Add the flaps of links that fell, with the servers at the far ends of cables."""
        links = self._nodes[name].links
        remotes = before.peers.remotes if before.peers is not None else ()
        cables = {link_states.slot(peer.slot): peer.uuid for peer in remotes}
        # The GPUs see the fall of a cable at their own ports: it is one fall.
        fell = [link for link in fell if link in cables] or fell
        self._note(name, FLAP, _each_once(FLAP, fell), now_s)
        for link in fell:
            record = links.get(link) or links.get(WHOLE_NODE)
            if record is not None and link in cables:
                record.far = cables[link]

    def _note_return(self, name: NodeName, facts: NodeFacts, now_s: float) -> None:
        """Note ports that are down no more; one that runs slower than before has slowed down.

        Of a port that is not shown nothing is said until another boot shows none of that name.
        """
        node, shown = self._nodes[name], link_states.ports_shown(facts)
        is_rebooted = node.boot != facts.identity.boot_id
        links = {link for link in node.down if not shown.get(link, not is_rebooted)}
        if not links:
            return
        seen = link_states.states(facts)
        slower = [
            link
            for link in links
            if link in seen
            and seen[link].rate < node.down[link].rate
            and node.down[link].at_s <= now_s
        ]
        node.down = {link: fall for link, fall in node.down.items() if link not in links}
        self._note(name, SLOWDOWN, _each_once(SLOWDOWN, slower), now_s)
        self._changed.add(name)

    def _note_owner(self, name: NodeName, server: ServerUuid | None) -> None:
        """Remember which node is the server that others name at the ends of their cables."""
        node = self._nodes[name]
        if node.server is not None and self._owner.get(node.server) == name:
            del self._owner[node.server]
        node.server = server
        if server is not None:
            self._owner[server] = name

    def _forgive(self, before: NodeFacts | None, after: NodeFacts, now_s: float) -> None:
        """Take back the flaps that the far ends of a node's cables saw while it booted."""
        readings = [each for each in (before, after) if each is not None and each.peers is not None]
        local = {each.peers.local for each in readings if each.peers is not None}
        far = {p.uuid for each in readings if each.peers is not None for p in each.peers.remotes}
        for other in {self._owner[uuid] for uuid in far if uuid in self._owner}:
            for link, record in self._nodes[other].links.items():
                flaps = record.evidence.get(FLAP)
                if record.far in local and flaps and now_s - flaps.last_s <= FORGIVEN_S:
                    record.take_back_flap(now_s)
                    self._schedule(other, link, record)
                    self._changed.add(other)

    def _count(self, event: LinksCounted, now_s: float) -> None:
        """Take the counters of a node; what is in none of them is zero."""
        node = self._nodes.get(event.node)
        if node is None:
            return
        stated: dict[str, dict[str, int]] = {}
        for each in event.counts:
            if each.kind in KINDS and each.count > 0:
                stated.setdefault(each.link, {})[each.kind] = each.count
        rises: dict[str, Rises] = {}
        for link, counts in stated.items():
            for kind, count in counts.items():
                risen = self._risen(node, (link, kind), count, now_s)
                if risen is not None:
                    rises.setdefault(kind, {})[link] = risen
        self._remember(event.node, node, stated, now_s)
        node.counted_in, node.counted_s = node.boot, now_s
        for kind, of_links in rises.items():
            self._note(event.node, kind, of_links, now_s)

    def _risen(
        self, node: NodeLinks, counter: tuple[str, str], count: int, now_s: float
    ) -> Rise | None:
        """Return by how many events a counter rose and what they weigh; None: nothing counts.

        What rose since a reading in the quiet time may have happened in it.
        """
        link, name = counter
        kind, record = KINDS[name], node.links.get(link)
        if node.counted_in is None:
            usual = kind.normal_per_h * LIFETIME_S / 3600
            weight = kind.weight * max(0.0, count - usual) * _OF_A_LIFETIME
            return Rise(count, weight, is_dated=False)
        if node.counted_in != node.boot or node.counted_s < node.quiet_until_s:
            return None
        before, at_s = (record.counts if record else {}).get(name, (0, -inf))
        if count <= before:
            return None
        usual = kind.normal_per_h * min((now_s - at_s) / 3600, 1.0)
        return Rise(count - before, kind.weight * max(0.0, count - before - usual))

    def _remember(
        self,
        name: NodeName,
        node: NodeLinks,
        stated: Mapping[str, Mapping[str, int]],
        now_s: float,
    ) -> None:
        """Keep the counters for the next comparison."""
        for link, counts in stated.items():
            record = self._record(name, link)
            if record is None:
                continue
            known = record.counts
            record.counts = {
                kind: known[kind] if known.get(kind, (0,))[0] == count else (count, now_s)
                for kind, count in counts.items()
            }
        for link in [link for link, record in node.links.items() if link not in stated]:
            node.links[link].counts = {}
        self._changed.add(name)

    def _note(self, name: NodeName, kind: str, rises: Rises, now_s: float) -> None:
        """Add what happened to links of a node in one reading."""
        if len(rises) >= TOGETHER:
            rises = {WHOLE_NODE: max(rises.values(), key=lambda each: each.weight)}
        for link, rise in rises.items():
            record = self._record(name, link) if rise.weight > 0 else None
            if record is not None:
                record.add(kind, rise, now_s)
                self._schedule(name, link, record)
                self._changed.add(name)

    def _record(self, name: NodeName, link: str) -> LinkRecord | None:
        """Return the record of a link, a new one where there is room for it."""
        links = self._nodes[name].links
        if link not in links:
            if len(links) >= MAX_LINKS_OF_NODE or self._number >= MAX_LINKS:
                return None
            links[link] = LinkRecord()
            self._number += 1
        return links[link]

    # -- what operators say ------------------------------------------------------------------

    def _decide(self, event: OperatorDecided, now_s: float) -> None:
        node = self._nodes.setdefault(event.node, NodeLinks(BootId("")))
        self._changed.add(event.node)
        if event.act is OperatorAct.QUARANTINE:
            link = f"{event.link}: " if event.link else ""
            node.quarantine = Quarantine(f"{link}{event.reason}", now_s)
        elif event.act is OperatorAct.CONFIRM:
            named = [link for link, record in node.links.items() if record.is_suspected]
            for link in [event.link] if event.link else named or [WHOLE_NODE]:
                if (record := self._record(event.node, link)) is not None:
                    record.confirmed = event.reason
        else:
            if not event.link:
                node.quarantine = None
            for link in [event.link] if event.link else [*node.links, *node.down]:
                node.down.pop(link, None)
                if link in node.links:
                    node.links[link].clear()

    def forget(self, name: NodeName) -> None:
        """Forget a node that nobody knows any more, unless something is held against it."""
        self.errors.pop(name, None)
        if (node := self._nodes.get(name)) is not None:
            self._note_owner(name, None)
            node.is_gone, node.seen = True, None
            self._changed.add(name)

    # -- what time does ----------------------------------------------------------------------

    def _schedule(self, name: NodeName, link: str, record: LinkRecord) -> None:
        # A later time needs no entry: the record is looked at early, and then again.
        if record.next_s < record.due_s:
            record.due_s = record.next_s
            heappush(self._due, (record.next_s, name, link))

    def _pass_time(self, now_s: float) -> None:
        while self._fell and self._fell[0][0] <= now_s:
            self._changed.add(heappop(self._fell)[1])
        while self._due and self._due[0][0] <= now_s:
            at_s, name, link = heappop(self._due)
            record = self.links(name).get(link)
            if record is None or record.due_s != at_s:
                continue
            record.due_s = inf
            if record.next_s <= now_s:
                record.pass_time(now_s)
                self._changed.add(name)
            self._schedule(name, link, record)

    # -- what others see ---------------------------------------------------------------------

    def _tell(self, name: NodeName) -> bool:
        """Renew what is held against a node; return whether it differs. O(links of the node)."""
        node = self._nodes.get(name)
        if node is None:
            return False
        for link in [link for link, record in node.links.items() if record.is_blank]:
            del node.links[link]
            self._number -= 1
        found, before = node.suspicion(self._now_s), self.suspected.get(name)
        if found is not None:
            self.suspected[name] = found
        else:
            self.suspected.pop(name, None)
            if node.is_gone:
                self._number -= len(node.links)
                del self._nodes[name]
        return found != before

    def of(self, name: NodeName) -> NodeSuspicion | None:
        """Return what is held against a node; None where that is nothing. O(1)."""
        return self.suspected.get(name)

    def links(self, name: NodeName) -> Mapping[str, LinkRecord]:
        """Return the records of a node's links, by link. O(1)."""
        node = self._nodes.get(name)
        return node.links if node is not None else {}

    def link_names(self, name: NodeName) -> frozenset[str]:
        """Return the links that the last reading shows or of which anything is kept. O(links)."""
        if (node := self._nodes.get(name)) is None:
            return frozenset()
        shown = (
            ()
            if node.seen is None
            else (
                *link_states.states(node.seen),
                *link_states.ports_shown(node.seen),
            )
        )
        return frozenset((*node.links, *node.down, *shown)) - {WHOLE_NODE}

    def down(self, name: NodeName) -> Iterable[str]:
        """Return the ports of a node that fell and were not seen up since. O(1)."""
        node = self._nodes.get(name)
        return node.down if node is not None else ()

    def quarantine(self, name: NodeName) -> Quarantine | None:
        """Return the quarantine of a node. O(1)."""
        node = self._nodes.get(name)
        return node.quarantine if node is not None else None

    # -- for restarts ------------------------------------------------------------------------

    def persistent_state(self) -> SuspicionMemory:
        """Return what a state file keeps. O(nodes and links)."""
        kept = (node.persistent_state(name, self._now_s) for name, node in self._nodes.items())
        return SuspicionMemory(
            tuple(each for each in kept if each is not None),
            tuple(n for n, node in self._nodes.items() if node.counted_in == node.boot),
            tuple(
                (name, node.quiet_until_s - self._now_s)
                for name, node in self._nodes.items()
                if node.quiet_until_s > self._now_s
            ),
        )

    def restore(
        self, memory: SuspicionMemory, boots: Mapping[NodeName, BootId], as_of_s: float
    ) -> None:
        """Take up what was kept, as of a monotonic time; `boots` are those of the nodes then.

        Of a node that was not counted since it booted, the counters are compared with nothing.
        """
        counted, quiet = set(memory.counted), dict(memory.quiet)
        for name, boot in boots.items():
            self._nodes[name] = NodeLinks(
                boot,
                quiet_until_s=as_of_s + min(QUIET_S, quiet.get(name, 0.0)),
                counted_in=boot if name in counted else None,
                counted_s=as_of_s,
            )
        for kept in memory.nodes:
            node = self._nodes.setdefault(kept.node, NodeLinks(BootId("")))
            if kept.quarantine is not None:
                reason, age_s = kept.quarantine
                node.quarantine = Quarantine(reason, as_of_s - age_s)
            node.down = {
                link: Fall(as_of_s - age_s, rate)
                for link, age_s, rate in kept.down[:MAX_LINKS_OF_NODE]
            }
            for at_s in {max(as_of_s, fall.at_s) for fall in node.down.values()}:
                heappush(self._fell, (at_s + DOWN_S, kept.node))
            for link in kept.links[:MAX_LINKS_OF_NODE]:
                if self._number < MAX_LINKS:
                    record = node.links[link.link] = LinkRecord.remembered(link, as_of_s)
                    self._number += 1
                    self._schedule(kept.node, link.link, record)
            self._changed.add(kept.node)

    def validate(self) -> None:
        """Raise `BrokenInvariantError` where kept values differ from recomputed ones. O(links)."""
        for name, node in self._nodes.items():
            require(
                node.suspicion(self._now_s) == self.of(name),
                f"what is held against {name} is of old",
            )
            most = max(len(node.links), len(node.down))
            require(most <= MAX_LINKS_OF_NODE, f"{name} has too many links")
            for link, record in node.links.items():
                require(0 <= record.score <= HIGHEST, f"{name} {link} has the score {record.score}")
                require(not record.is_blank, f"nothing is known of {name} {link}")
                waits = record.next_s < inf
                is_due = record.due_s <= record.next_s
                require(not waits or is_due, f"{name} {link} is lifted late or never")
        owners = set(self._owner.values())
        require(owners <= self._nodes.keys(), "a node that is forgotten owns a server")
        number = sum(len(node.links) for node in self._nodes.values())
        require(number == self._number <= MAX_LINKS, "the links are counted wrongly")


def _each_once(kind: str, links: Iterable[str]) -> Rises:
    return dict.fromkeys(links, Rise(1, KINDS[kind].weight))
