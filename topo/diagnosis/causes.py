"""Causes that explain many cases at once: each is reported once, and its consequences are not.

A cause takes its cases out of those that are left, so that the next cause, and in the end the list
of single findings, sees only what is not explained yet. Causes that explain most come first.

Example: four machines of a cluster manager whose workers were not started are 4 machines that join
no node, 4 nodes of the other ends without a peer, 4 servers without a report and 2 switchboxes
that are short of nodes. It is one finding: no worker has reported from these four machines.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TypeVar

from topo.diagnosis.cases import Cases, subjects
from topo.diagnosis.failed_groups import failed_groups
from topo.diagnosis.finding import Case, Finding, listed, longest_s, number
from topo.diagnosis.steps import WAITING, step
from topo.model.conditions.condition import Severity
from topo.model.conditions.doctor import ServiceCondition
from topo.model.conditions.sources import SourceCondition
from topo.model.conditions.tree import ConflictCondition, GroupCondition, NodeCondition
from topo.model.ids import natural_key
from topo.model.observation import CLUSTER_MANAGER, CONFIG_FILE, WORKERS
from topo.model.rest.topology import (
    WITHOUT_WORKERS,
    TopologyDocument,
    WireDocument,
    is_group,
    walk,
)

_T = TypeVar("_T")
_TOGETHER_S = 120.0
"""A worker whose reports are refused is stale three beats later (30 s), one that restarts with a
wrong token perhaps before it is refused; a minute and a half for slow starts and longer beats."""
ALONE = 3
"""Up to so many conflicts or cables of one kind each stand alone; more of them are one finding."""


def causes(document: TopologyDocument, cases: Cases) -> Iterator[Finding]:
    """Return the findings that explain several cases, in the order in which to look at them."""
    sources = {source["source"]: source for source in document["sources"]}
    workers = sources.get(WORKERS)
    refused = cases.take(*(w.code for w in workers["warnings"])) if workers is not None else []
    if refused:
        yield from _refused_reports(document, cases, refused)
    elif (
        workers is not None
        and workers["state"] == "waiting"
        and document["mode"] not in WITHOUT_WORKERS
    ):
        yield _no_worker_at_all(document, cases)
    # No worker can report from a machine that the cluster itself finds not Ready.
    down = subjects(cases.of(NodeCondition.NODE_NOT_READY))
    cases.forgive(down, NodeCondition.WORKER_STALE, NodeCondition.NO_WORKER)
    yield from _all_silent(document, cases)
    yield from _other_mode(document, cases)
    manager = sources.get(CLUSTER_MANAGER)
    if manager is not None and manager["age_s"] is None and manager["state"] != "ok":
        # A manager that never answered has listed no machine: that is no fault of the nodes.
        cases.take(NodeCondition.NOT_MANAGED)
    yield from _clones(cases)
    yield from _machines_without_workers(document, cases)
    yield from _servers_without_workers(document, cases)
    _dead_switches(cases)
    failed = list(failed_groups(document, cases))
    yield from failed
    yield from _cut_cables(document, cases, {name for each in failed for name in each.subjects})
    yield from _no_gpus(document)


def _dead_switches(cases: Cases) -> None:
    """Take what follows from switches that died, and of nodes without another port, into one case.

    No later dump has adapters behind such a switch. Where nobody knows that it is a switch (in the
    first minutes, after a restart), the nodes without any port of the fabric are the case.
    """
    for switch in cases.take(ConflictCondition.SUSPECTED_TOGETHER):
        cases.forgive(switch.subjects, ConflictCondition.FABRIC_NODE_VANISHED)
        dark = subjects(cases.forgive(switch.subjects, NodeCondition.UPLINKS_DOWN))
        words = f"; {number(dark, 'node')} of these have no port of the fabric up" if dark else ""
        cases.left.append(switch._replace(text=switch.text + words))
    dark = subjects(cases.of(NodeCondition.UPLINKS_DOWN))
    cases.forgive(dark, ConflictCondition.FABRIC_NODE_VANISHED, ConflictCondition.LINK_SUSPECTED)


def _finding(case: Case, names: Sequence[str], what: str, since_s: float | None) -> Finding:
    grade = Severity.WRONG
    return Finding(grade, case.code, listed(names), what, case.fix, tuple(names), since_s)


def _refused_reports(
    document: TopologyDocument, cases: Cases, refused: Sequence[Case]
) -> Iterator[Finding]:
    """Report refused workers, together with those that fell silent as the refusals began.

    A refusal has a sender and no certain node, so the times tell which silence follows from it. One
    that began long before, or long after, is a finding of its own.
    """
    _take_unreported(document, cases)
    for case in refused:
        silent = subjects(cases.take(NodeCondition.WORKER_STALE, if_=partial(_follows, case)))
        more = (
            f"; {number(silent, 'node')} fell silent about then: {listed(silent)}" if silent else ""
        )
        yield _finding(case, case.subjects, case.text + more, case.since_s)


def _follows(refusal: Case, silence: Case) -> bool:
    """Return whether a node may be silent because its reports are refused.

    A time that is not known is that of a node which was silent before the master started, and may
    have been refused for as long.
    """
    if silence.since_s is None or refusal.since_s is None:
        return True
    return abs(refusal.since_s - silence.since_s) <= _TOGETHER_S


def _no_worker_at_all(document: TopologyDocument, cases: Cases) -> Finding:
    waiting = subjects(_take_unreported(document, cases))
    what = "no worker has reported yet"
    if waiting:
        what += f", {number(waiting, 'machine')} should have one: {listed(waiting)}"
    return Finding.of(SourceCondition.WAITING, [WORKERS], what, WAITING[WORKERS])


def _all_silent(document: TopologyDocument, cases: Cases) -> Iterator[Finding]:
    """Report the way to the master where every node that reported has stopped."""
    stale = cases.of(NodeCondition.WORKER_STALE)
    silent = subjects(stale)
    placed = [v["name"] for _, v in walk(document["groups"]) if not is_group(v)]
    known = {*placed, *(entry["name"] for entry in document["unplaced"])}
    reported = known.difference(subjects(cases.of(NodeCondition.NO_WORKER)))
    # One silent worker is that node's trouble, and some modes need no worker.
    if document["mode"] in WITHOUT_WORKERS or len(silent) < 2 or reported != set(silent):
        return
    cases.take(NodeCondition.WORKER_STALE)
    what, since_s = f"all {number(silent, 'worker')} are silent", longest_s(stale)
    what += f": {stale[0].text}"
    next_step = f"see the log of one, such as that of {silent[0]}: does its --server-address still "
    next_step += "lead to the master's --rpc-server-port (10001 unless set)?"
    yield Finding.of(NodeCondition.WORKER_STALE, [WORKERS], what, next_step, since_s=since_s)


def _take_unreported(document: TopologyDocument, cases: Cases) -> list[Case]:
    """Take out what follows from missing reports; return the nodes and machines without a worker.

    What follows: servers that others see, these others without a peer, and the groups short of
    them.
    """
    waiting = cases.take(NodeCondition.NO_WORKER, ServiceCondition.UNJOINED)
    nodes = set(subjects(cases.take(NodeCondition.UNKNOWN_PEER)))
    short = {"/".join(m["group"][:depth]) for m in document["unjoined"] for depth in range(1, 9)}
    for path, vertex in walk(document["groups"]):
        if vertex["name"] in nodes and not is_group(vertex):
            short.update("/".join(path[:depth]) for depth in range(1, len(path)))
    cases.forgive(nodes, NodeCondition.NO_PEER)
    short_of = GroupCondition.EMPTY, GroupCondition.INCOMPLETE
    cases.take(*short_of, if_=lambda case: case.subjects[0] in short)
    return waiting


def _other_mode(document: TopologyDocument, cases: Cases) -> Iterator[Finding]:
    code = NodeCondition.OTHER_FABRIC
    nodes = subjects(found := cases.take(code))
    if nodes:
        what = f"--mode={document['mode']} cannot place {number(nodes, 'node')}; {nodes[0]}: "
        what += found[0].text
        next_step = step(code, nodes[0], document["mode"])
        yield Finding.of(code, nodes, what, next_step, since_s=longest_s(found))


def _clones(cases: Cases) -> Iterator[Finding]:
    """Report shared server UUIDs: a link to one can mean either node, and so joins none."""
    clones = cases.take(ConflictCondition.CLONED_SERVER_UUID)
    twins = frozenset(subjects(clones))
    links = cases.take(
        ConflictCondition.ONE_SIDED_LINK, if_=lambda case: not twins.isdisjoint(case.subjects)
    )
    touched = twins.union(subjects(links))
    # Nodes at the ends of ambiguous links have no peer because of the clone, not by themselves.
    alone = cases.forgive(touched, NodeCondition.NO_PEER, NodeCondition.UNKNOWN_PEER)
    for part in _parts(clones):
        names, first = subjects(part), part[0]
        owners = set(names)
        around = subjects(case for case in links if not owners.isdisjoint(case.subjects))
        joined = sorted({*around, *names} & set(subjects(alone)), key=natural_key)
        what = first.text
        if len(part) > 1:
            what = f"{len(part)} server UUIDs are stated by several nodes: {what}"
        more = f"; because of it {listed(joined)} joined nobody" if joined else ""
        yield _finding(first, names, what + more, longest_s(part))


def _machines_without_workers(document: TopologyDocument, cases: Cases) -> Iterator[Finding]:
    """Report machines that match no node: their workers are missing, or their names differ."""
    unjoined = cases.of(ServiceCondition.UNJOINED)
    if not unjoined:
        return
    names, strangers = subjects(unjoined), subjects(cases.take(NodeCondition.NOT_MANAGED))
    if strangers:
        cases.take(ServiceCondition.UNJOINED)
        what = f"{number(names, 'machine')} of the cluster manager and {number(strangers, 'node')} "
        what += f"that report ({listed(strangers)}) have no name in common: {unjoined[0].text}"
        next_step = f"compare with `topo node {strangers[0]}`; --join-keys says which names count"
    else:
        _take_unreported(document, cases)
        what = f"no worker has reported from {number(names, 'machine')} of the cluster manager: "
        what += unjoined[0].text
        next_step = ""
    yield Finding.of(ServiceCondition.UNJOINED, names, what, next_step)


def _servers_without_workers(document: TopologyDocument, cases: Cases) -> Iterator[Finding]:
    unknown = cases.of(NodeCondition.UNKNOWN_PEER)
    if not unknown:
        return
    _take_unreported(document, cases)
    nodes, what = subjects(unknown), unknown[0].text
    if len(nodes) > 1:
        what = f"{number(nodes, 'node')} see servers from which no worker has reported"
    yield Finding.of(NodeCondition.UNKNOWN_PEER, nodes, what)


def _cut_cables(
    document: TopologyDocument, cases: Cases, told: Collection[str]
) -> Iterator[Finding]:
    """Report each cable once, with the slots at both ends, although both ends state it.

    One between nodes of which a group of theirs is `told` goes with it.

    Where another cable of the two nodes is up, their link is only degraded, and both are Ready.
    """
    holding = {_link(wire) for wire in document["wires"] if wire["state"] != "down"}
    down = [
        wire
        for wire in document["wires"]
        if wire["state"] == "down" and not (wire["node"] in told and wire["peer"] in told)
    ]
    down.sort(key=lambda wire: (natural_key(wire["node"]), wire["slot"]))
    yield from _lost_cables([wire for wire in down if _link(wire) in holding], cases)
    down = [wire for wire in down if _link(wire) not in holding]
    ends = {end for wire in down for end in (wire["node"], wire["peer"]) if end}
    cut = cases.forgive(ends, NodeCondition.LINK_DOWN)
    for wires in _parts(down):
        what = _cables(wires)
        nodes = list(dict.fromkeys(end for w in wires for end in (w["node"], w["peer"]) if end))
        since_s = longest_s(case for case in cut if case.subjects[0] in nodes)
        yield Finding.of(NodeCondition.LINK_DOWN, nodes, what, since_s=since_s)


def _lost_cables(down: Sequence[WireDocument], cases: Cases) -> Iterator[Finding]:
    """Report the cables that a link between two nodes has lost, with the conflict that they are."""
    links: dict[frozenset[str], list[WireDocument]] = {}
    for wire in down:
        if wire["peer"] is not None:  # what one end alone says is a conflict of that node
            links.setdefault(_link(wire), []).append(wire)
    for ends, wires in links.items():
        told = cases.take(ConflictCondition.LINK_DEGRADED, if_=partial(_is_about, ends))
        what = "; ".join([_cables(wires), *(case.text for case in told)])
        nodes, since_s = sorted(ends, key=natural_key), longest_s(told)
        yield Finding.of(ConflictCondition.LINK_DEGRADED, nodes, what, since_s=since_s)


def _is_about(names: frozenset[str], case: Case) -> bool:
    return names == frozenset(case.subjects)


def _link(wire: WireDocument) -> frozenset[str]:
    """Return both ends of a wire: nodes, or a server that is none."""
    return frozenset((wire["node"], wire["peer"] or wire["server"]))


def _cables(wires: Sequence[WireDocument]) -> str:
    cables = [f"{_end(w['node'], w['slot'])} to {_far_end(w)}" for w in wires]
    return f"{len(cables)} {'cables are' if len(cables) > 1 else 'cable is'} down: {listed(cables)}"


def _parts(things: list[_T]) -> list[list[_T]]:
    """Return each thing alone, or all together where they are many."""
    return [[thing] for thing in things] if len(things) <= ALONE else [things]


def _end(node: str, slot: int | None) -> str:
    return node if slot is None else f"{node} (slot {slot})"


def _far_end(wire: WireDocument) -> str:
    return (
        f"server {wire['server']}"
        if wire["peer"] is None
        else _end(wire["peer"], wire["peer_slot"])
    )


def _no_gpus(document: TopologyDocument) -> Iterator[Finding]:
    """Report Ready nodes whose number of GPUs is unknown or 0: no job can be placed there.

    Only a config file calls a node Ready whose worker never spoke; others reported 0 GPUs.
    """
    leaves = [vertex for _, vertex in walk(document["groups"]) if not is_group(vertex)]
    bare = [node["name"] for node in leaves if node["status"] == "Ready" and not node["gpus"]]
    of_file = set(_listed_by_file(document))
    unknown = [name for name in bare if name in of_file]
    seeing_none = [name for name in bare if name not in of_file]
    for names, code, why in (
        (unknown, NodeCondition.NO_GPUS, "Ready without a known number of GPUs"),
        (seeing_none, NodeCondition.NO_GPUS_SEEN, "Ready, and the worker there sees no GPU"),
    ):
        if names:
            what = f"{len(names)} of {number(leaves, 'node')} {why}: no job can be placed there"
            yield Finding.of(code, names, what)


def _listed_by_file(document: TopologyDocument) -> Iterator[str]:
    """Return the nodes that may have no worker: their own group is one of the config file."""
    for _, group in walk(document["groups"]):
        if is_group(group) and group["source"] == CONFIG_FILE:
            yield from (child["name"] for child in group["child"] if not is_group(child))
