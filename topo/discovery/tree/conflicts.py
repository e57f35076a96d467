"""Conflicts: contradictions between sources, each listed once, with the way to resolve it.

Every finding has one *owner*, the least by name among the nodes that it concerns. So it is enough
to look at the nodes that changed to keep the list true: a conflict of a component is found again
when its least member is, and every change of a component touches all its members. A lost cable of
several is found from both ends, each in its own time, in the same words, and is listed once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum

from topo.discovery.groups.fabrics import FIRST
from topo.discovery.groups.membership import Membership
from topo.discovery.groups.nvlink_domains import super_pod_names
from topo.discovery.groups.tiers import outside_super_pod
from topo.discovery.groups.wiring import Members, Wiring
from topo.discovery.modes import WITHOUT_WORKERS, DiscoverySettings, Mode
from topo.discovery.node.health import Subject
from topo.discovery.node.peer_claims import CABLES
from topo.discovery.node.record import NodeRecord
from topo.model.conditions.tree import ConflictCondition, NodeCondition
from topo.model.errors import require
from topo.model.forest import Conflict, Path, Reason, UnjoinedMachine
from topo.model.ids import DRAGONFLY, SCALE_OUT, GroupName, NodeName, ServerUuid, natural_key
from topo.model.observation import CLUSTER_MANAGER, CONFIG_FILE, ManagedGroup, WorkerRefused
from topo.model.words import listed

_IN_DOMAINS = (Mode.NVLINK, Mode.AUTO)
"""The modes whose groups GPUs state."""
_RELABEL = (
    "compare `npu-smi info -t spod-info -i 0 -c 0` on the node with its label "
    "huawei.com/topotree.superpodid, or without one its annotation superPodID (rackid, rackID); "
    "restart its device plugin, which writes them"
)


def _conflict(code: ConflictCondition, subjects: tuple[str, ...], text: str) -> Conflict:
    return Conflict(code, subjects, text, code.next_step(NODE=subjects[0]))


def of_node(
    membership: Membership, record: NodeRecord, settings: DiscoverySettings
) -> tuple[Conflict, ...]:
    """Return the conflicts that this node owns. O(its component and its claims)."""
    node = record.name
    component = membership.wiring.component(node)
    found: list[Conflict] = []
    if not membership.wiring.is_sound(node):
        found += _suspects(membership, node)
    if len(record.stated) > 1:
        found.append(_disagreement(record))
    if slow := record.slow_links:
        found += _degraded(membership.wiring, node, slow)
    if len(component) > 1 and node == membership.least(component):
        found += _of_component(membership, component, settings)
    found += _of_domain(membership, node, settings)
    found += _of_super_pod(membership, node, settings)
    return tuple(found)


def _of_domain(
    membership: Membership, node: NodeName, settings: DiscoverySettings
) -> Iterator[Conflict]:
    """Yield what writers of groups say against an NVLink domain, for its least member."""
    if settings.mode not in _IN_DOMAINS or not settings.stated:
        return
    domain = membership.nvlink.members(node)
    if len(domain) > 1 and node == membership.least(domain):
        yield from _of_members(membership, domain, settings)


def _of_super_pod(
    membership: Membership, node: NodeName, settings: DiscoverySettings
) -> Iterator[Conflict]:
    """Yield what does not fit of a super pod, for its least member."""
    pod, members = membership.nvlink.super_pod(node), membership.nvlink.members(node)
    if pod is None or node != membership.least(members):
        return
    if settings.mode in _IN_DOMAINS and membership.super_pods.seat(node) is not None:
        found = membership.super_pod_finding(node, pod)
        if found is not None:
            yield _conflict(found.code, found.nodes, found.text)
    if membership.labelled.is_used:
        yield from _labelled_otherwise(membership, members, settings)


def _labelled_otherwise(
    membership: Membership, members: Members, settings: DiscoverySettings
) -> Iterator[Conflict]:
    """Yield the nodes that labels put into a super pod or a rack of another number than npu-smi."""
    said: dict[tuple[str, str], list[NodeName]] = {}
    for member in sorted(members, key=natural_key):
        by_npu_smi = (group.name for group in membership.nvlink.groups(member))
        pairs = zip(by_npu_smi, _labelled_super_pod(membership, member), strict=False)
        if differing := [pair for pair in pairs if pair[0] != pair[1]]:
            said.setdefault(differing[0], []).append(member)
    follows = "what is written" if settings.mode in WITHOUT_WORKERS else "npu-smi"
    for (stated, labelled), nodes in said.items():
        text = f"npu-smi puts {listed(nodes)} into {stated}, labels or annotations into "
        text += f"{labelled}; {follows} is followed"
        yield Conflict(ConflictCondition.DIFFERS_FROM_LABELS, tuple(nodes), text, _RELABEL)


def _labelled_super_pod(membership: Membership, node: NodeName) -> tuple[GroupName, ...]:
    """Return the super pod and the rack of a node by the numbers in its labels, called as those of
    npu-smi are; none where labels have other names than numbers for them.
    """
    path = membership.labelled.find(node)
    inner = path[len(outside_super_pod(path)) :] if isinstance(path, tuple) else ()
    numbers = [int(group.name) for group in inner if group.name.isascii() and group.name.isdigit()]
    return super_pod_names(numbers) if len(numbers) == len(inner) else ()


def _of_component(
    membership: Membership, component: Members, settings: DiscoverySettings
) -> Iterator[Conflict]:
    fits = len(component) <= settings.node_number
    is_managed = settings.stated == (CLUSTER_MANAGER,) and not membership.labelled.is_used
    # The usual case at scale: manager and wiring agree, and nothing below can be found.
    if fits and is_managed and membership.machines.are_in_one_group(component):
        return
    yield from _of_members(membership, component, settings)
    if settings.mode in (Mode.DRAGONFLY, Mode.SWITCHBOX, Mode.AUTO):
        yield from _oversize(tuple(sorted(component, key=natural_key)), settings.node_number)


def _of_members(
    membership: Membership, together: Members, settings: DiscoverySettings
) -> Iterator[Conflict]:
    """Yield what each writer of groups says against nodes that stand together by measurement."""
    members = tuple(sorted(together, key=natural_key))
    if CONFIG_FILE in settings.stated:
        yield from _against_config(membership, members, settings)
    if membership.labelled.is_used:
        yield from _against_labels(membership, members, settings)
    if CLUSTER_MANAGER in settings.stated:
        yield from _against_manager(membership, together, members)


def of_wiring(wiring: Wiring) -> Iterator[Conflict]:
    """Return the server UUIDs that several nodes state."""
    for uuid, number, first in wiring.shared():
        more = f" and {number - len(first)} more" if number > len(first) else ""
        named = ", ".join(first) + more
        text = f"server UUID {uuid} is stated by {named}; "
        text += "only a link that was confirmed long before the second came is used"
        yield _conflict(ConflictCondition.CLONED_SERVER_UUID, first, text)


def _suspects(membership: Membership, node: NodeName) -> Iterator[Conflict]:
    for uuid, owners in membership.wiring.suspects(node):
        if owners:
            text = f"{node} sees {', '.join(owners)} (server {uuid}), which does not "
            text += "confirm the link; it joins nothing"
            yield _conflict(ConflictCondition.ONE_SIDED_LINK, (node, *owners), text)
        else:
            yield Conflict(
                NodeCondition.UNKNOWN_PEER,
                (node,),
                f"{node} sees server {uuid}, which no worker has reported",
                "start a worker on that server, or check where the cable leads",
            )


def _disagreement(record: NodeRecord) -> Conflict:
    stated = ", ".join(map(str, record.stated))
    text = f"the GPUs of {record.name} state different domains: {stated}"
    return _conflict(ConflictCondition.GPUS_DISAGREE, (record.name,), text)


def _degraded(
    wiring: Wiring, node: NodeName, links: Mapping[Subject, Reason]
) -> Iterator[Conflict]:
    """Yield the conflicts of slow links; jobs run on the node, so they are no reason for NotReady.

    A lost cable is one conflict of both ends, in the same words whichever end sees it.
    """
    slow = []
    for (what, which), reason in links.items():
        peer = wiring.neighbour_behind(node, ServerUuid(which)) if what == CABLES else None
        if peer is None:
            slow.append(reason.text)
            continue
        ends = sorted((node, peer), key=natural_key)
        text = f"jobs that need every link run slowly on {' and '.join(ends)}: "
        text += "not all of the cables between them are there"
        yield _conflict(ConflictCondition.LINK_DEGRADED, tuple(ends), text)
    if slow:
        more = f" (and {len(slow) - 1} more)" if len(slow) > 1 else ""
        text = f"jobs that need every link run slowly on {node}: {slow[0]}{more}"
        yield _conflict(ConflictCondition.LINK_DEGRADED, (node,), text)


def _oversize(members: tuple[NodeName, ...], node_number: int) -> Iterator[Conflict]:
    if len(members) > node_number:
        text = f"{len(members)} nodes are wired together where {node_number} make a dragonfly"
        yield _conflict(ConflictCondition.OVERSIZE_GROUP, members, text)


def _against_config(
    membership: Membership, members: tuple[NodeName, ...], settings: DiscoverySettings
) -> Iterator[Conflict]:
    places = membership.declared.places
    written = {places[n].path for n in members if n in places}
    is_of_wires = membership.declared.fabric != SCALE_OUT  # a dragonfly may be across two leaves
    if len(written) > 1 and is_of_wires:
        text = "workers see these nodes wired together; the config file puts them in different "
        text += f"groups; {_followed(settings, 'the file')}"
        yield _conflict(ConflictCondition.DIFFERS_FROM_CONFIG, members, text)


def _followed(settings: DiscoverySettings, writer: str) -> str:
    """Return who is followed where cables and a writer of groups differ."""
    return f"{writer if settings.mode in WITHOUT_WORKERS else 'the wiring'} is followed"


def _labels_of(membership: Membership, settings: DiscoverySettings, node: NodeName) -> Path:
    """Return the groups that labels name for a node, but for those of switches where the tree
    follows another fabric: these need not be the groups of wires between GPUs.
    """
    found = membership.labelled.find(node)
    path = found if isinstance(found, tuple) else ()
    if membership.nvlink.super_pod(node) and _labelled_super_pod(membership, node):
        path = outside_super_pod(path)  # the rest is compared in `_labelled_otherwise`
    if settings.mode not in FIRST:
        return path
    of_switches = membership.labelled.find(node, of_switches=True)
    return path[len(of_switches) :] if isinstance(of_switches, tuple) else path


def _against_labels(
    membership: Membership, members: tuple[NodeName, ...], settings: DiscoverySettings
) -> Iterator[Conflict]:
    paths = {node: path for node in members if (path := _labels_of(membership, settings, node))}
    # A path that ends sooner agrees with those that go on from there.
    longest = max(paths.values(), key=len, default=())
    if all(longest[: len(path)] == path for path in paths.values()):
        return
    named = {"/".join(group.name for group in path) for path in paths.values()}
    text = "workers see these nodes wired together; their labels put them in "
    text += (
        f"{' and '.join(sorted(named, key=natural_key))}; {_followed(settings, 'what is written')}"
    )
    yield _conflict(ConflictCondition.DIFFERS_FROM_LABELS, members, text)


def of_labels(membership: Membership) -> Iterator[Conflict]:
    """Return the conflict of nodes that stand where labels put them that are gone."""
    if kept := membership.labelled.kept:
        text = f"labels that name groups vanished from {len(kept)} "
        text += "nodes; their last place is kept for a while"
        yield _conflict(ConflictCondition.LABELS_VANISHED, kept, text)


def _against_manager(
    membership: Membership, component: Members, members: tuple[NodeName, ...]
) -> Iterator[Conflict]:
    own = {membership.machines.chain(n) for n in members}
    chains = membership.chains(component)
    if len(chains) > 1:
        named = sorted(("/".join(g.name for g in c) for c in chains), key=natural_key)
        text = "workers see these nodes wired together; the cluster manager puts them in "
        text += f"{' and '.join(named)} and is followed: the dragonfly is shown in parts"
        yield _conflict(ConflictCondition.DIFFERS_FROM_MANAGER, members, text)
    stated = {g for chain in own for g in chain if g.kind == DRAGONFLY}
    if len(stated) > 1:
        yield _differing_dragonflies(members, stated)
    unlisted = [n for n in members if membership.machines.machine(n) is None]
    if chains and unlisted:
        text = f"the cluster manager does not list {', '.join(unlisted)}; "
        text += "placed with the dragonfly"
        yield _conflict(ConflictCondition.NOT_IN_MANAGER, tuple(unlisted), text)


def _differing_dragonflies(members: tuple[NodeName, ...], stated: set[ManagedGroup]) -> Conflict:
    names = ", ".join(sorted((g.name for g in stated), key=natural_key))
    text = f"workers see these nodes in one dragonfly, the cluster manager in {names}; "
    text += "the workers are followed"
    return _conflict(ConflictCondition.DIFFERS_FROM_MANAGER, members, text)


def of_machines(membership: Membership) -> Iterator[Conflict]:
    """Return the conflicts among the manager's machines."""
    for failure in membership.machines.failures():
        if failure.code is not None:
            subjects = (failure.machine.id, *failure.nodes)
            yield _conflict(failure.code, subjects, failure.machine.text)
    missing = membership.machines.missing
    if missing:
        chains = (membership.machines.groups.chain(each.group_id) for each in missing)
        counts = Counter("/".join(group.name for group in chain) or "no group" for chain in chains)
        of_each = listed([f"{count} of {group}" for group, count in counts.items()])
        text = f"the cluster manager no longer lists {len(missing)} machines that it listed "
        text += f"before, {of_each}; their last place is kept for a while"
        yield _conflict(ConflictCondition.MACHINE_VANISHED, tuple(m.id for m in missing), text)


def unjoined(membership: Membership) -> tuple[UnjoinedMachine, ...]:
    """Return every machine that is no node, with its place in the manager's tree."""
    return tuple(failure.machine for failure in membership.machines.failures())


def _in_order(conflicts: Iterable[Conflict]) -> tuple[Conflict, ...]:
    """Sort by code, then by subjects in natural order; equal ones are one."""
    found = dict.fromkeys(conflicts)
    return tuple(sorted(found, key=lambda c: (c.code, [natural_key(s) for s in c.subjects])))


def of_fabric(membership: Membership) -> Iterator[Conflict]:
    """Return what does not fit of the cables in dumps of a fabric."""
    for found in membership.fabric.findings:
        yield _conflict(found.code, found.nodes, found.text)


class Topic(Enum):
    """What conflicts are about that no single node owns."""

    MACHINES = "machines"
    LABELS = "labels"
    FABRIC = "the fabric"
    SOURCES = "sources"
    SUSPICIONS = "suspicions"


_FINDERS: Mapping[Topic, Callable[[Membership], Iterable[Conflict]]] = {
    Topic.MACHINES: of_machines,
    Topic.LABELS: of_labels,
    Topic.FABRIC: of_fabric,
}


class ConflictList:
    """Conflicts of nodes, machines, shared server UUIDs, and of reports refused lately. Mutable."""

    def __init__(self) -> None:
        self._of_nodes: dict[NodeName, tuple[Conflict, ...]] = {}
        self._of_topics: dict[Topic, tuple[Conflict, ...]] = dict.fromkeys(Topic, ())
        self._refused: dict[tuple[NodeName, str], tuple[float, Conflict]] = {}
        self._changed = False
        self._listed: tuple[Conflict, ...] = ()

    def has(self, node: NodeName) -> bool:
        """Return whether a node owns a conflict."""
        return node in self._of_nodes

    def set_node(self, node: NodeName, owned: tuple[Conflict, ...]) -> None:
        """Set the conflicts that a node owns."""
        # Nodes are placed again far more often than their conflicts change.
        if owned == self._of_nodes.get(node, ()):
            return
        self._changed = True
        if owned:
            self._of_nodes[node] = owned
        else:
            del self._of_nodes[node]

    def put(self, topic: Topic, found: Iterable[Conflict]) -> None:
        """Set the conflicts of a topic."""
        now = tuple(found)
        self._changed |= now != self._of_topics[topic]
        self._of_topics[topic] = now

    def refuse(self, event: WorkerRefused, now_s: float) -> None:
        """List a report that was not accepted, until `expire` finds it too old."""
        conflict = Conflict(event.code, (event.node,), event.text, event.fix)
        known = self._refused.get((event.node, event.code))
        self._changed |= known is None or known[1] != conflict
        self._refused[event.node, event.code] = (now_s, conflict)

    def expire(self, before_s: float) -> None:
        """Drop the reports that were refused before that time and not again since."""
        late = [key for key, (at_s, _) in self._refused.items() if at_s < before_s]
        for key in late:
            del self._refused[key]
            self._changed = True

    def listed(self, wiring: Wiring) -> tuple[Conflict, ...]:
        """Return all conflicts in order; the same object while nothing changed."""
        # The same tuple while nothing changed, so that the forest is compared by identity.
        if self._changed or wiring.shared_changed:
            self._listed = _in_order(self._all(wiring))
            self._changed = False
        return self._listed

    def validate(
        self,
        of_nodes: Mapping[NodeName, tuple[Conflict, ...]],
        membership: Membership,
    ) -> None:
        """Check that the list is what the finders find now."""
        wiring = membership.wiring
        owned = {node: found for node, found in of_nodes.items() if found}
        require(owned == self._of_nodes, "the conflicts of a node are out of date")
        for topic, find in _FINDERS.items():
            found = tuple(find(membership))
            what = f"the conflicts of {topic.value} are out of date"
            require(found == self._of_topics[topic], what)
        require(
            _in_order(self._all(wiring)) == self._listed, "the list of conflicts is out of date"
        )

    def _all(self, wiring: Wiring) -> Iterator[Conflict]:
        for found in self._of_topics.values():
            yield from found
        yield from of_wiring(wiring)
        for owned in self._of_nodes.values():
            yield from owned
        yield from (conflict for _, conflict in self._refused.values())
