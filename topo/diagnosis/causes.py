"""What lies behind many cases at once: each cause is said once, and what follows from it is not.

A cause takes its cases out of those that are left, so that the next cause, and in the end the list
of single findings, sees only what is not explained yet. Causes that explain most come first.

Example: four machines of a cluster manager whose workers were not started are 4 machines that join
no node, 4 nodes of the other ends without a peer, 4 servers that nobody reported and 2 switchboxes
that are short of nodes. It is one finding: no worker has reported from these four machines.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from topo.diagnosis.finding import Case, Finding, Severity, listed, number
from topo.diagnosis.steps import WAITING, step
from topo.model.ids import natural_key
from topo.model.rest.topology import (
    SourceDocument,
    TopologyDocument,
    WireDocument,
    is_group,
    walk,
)

_T = TypeVar("_T")
WORKERS, CLUSTER_MANAGER, CONFIG_FILE = "workers", "cluster-manager", "config-file"
ALONE = 3
"""So many conflicts or cables of one kind each stand alone; more of them are one finding."""


class Cases:
    """The cases that no cause explains yet. Mutable; made for one examination."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self.left = list(cases)

    def take(self, explained: Callable[[Case], bool]) -> list[Case]:
        """Take out the cases that a cause explains."""
        taken = [case for case in self.left if explained(case)]
        self.left = [case for case in self.left if not explained(case)]
        return taken

    def of(self, *codes: str) -> list[Case]:
        """Take out the cases of these codes."""
        return self.take(lambda case: case.code in codes)


def causes(document: TopologyDocument, cases: Cases) -> Iterator[Finding]:
    """The findings that explain several cases, in the order in which to look at them."""
    sources = {source["source"]: source for source in document["sources"]}
    workers = sources.get(WORKERS)
    refused = cases.of(*(w.code for w in workers["warnings"])) if workers is not None else []
    if refused:
        yield from _refused_reports(document, cases, refused)
    elif workers is not None and workers["state"] == "waiting" and document["mode"] != "config":
        yield _no_worker_at_all(document, cases)
    _forgive_down_machines(cases)
    yield from _all_silent(document, cases)
    yield from _other_mode(document, cases)
    _forgive_without_inventory(sources.get(CLUSTER_MANAGER), cases)
    yield from _clones(cases)
    yield from _machines_without_workers(document, cases)
    yield from _servers_without_workers(document, cases)
    yield from _cut_cables(document, cases)
    yield from _no_gpus(document)


def subjects(cases: Iterable[Case]) -> list[str]:
    """All that the cases name, each once, in the order of the cases."""
    return list(dict.fromkeys(name for case in cases for name in case.subjects))


def _wrong(code: str, names: Sequence[str], what: str, next_step: str) -> Finding:
    return Finding(Severity.WRONG, code, listed(names), what, next_step, tuple(names))


def _refused_reports(
    document: TopologyDocument, cases: Cases, refused: Sequence[Case]
) -> Iterator[Finding]:
    """Workers run and are not let in; those that were let in before have gone silent."""
    _unreported(document, cases)
    silent = subjects(cases.of("worker-stale"))
    more = f"; {number(silent, 'node')} silent since: {listed(silent)}" if silent else ""
    for case in refused:
        yield _wrong(case.code, case.subjects, case.text + more, case.fix)


def _no_worker_at_all(document: TopologyDocument, cases: Cases) -> Finding:
    waiting = subjects(_unreported(document, cases))
    what = "no worker has reported yet"
    if waiting:
        what += f", {number(waiting, 'machine')} should have one: {listed(waiting)}"
    return _wrong("source-waiting", [WORKERS], what, WAITING[WORKERS])


def _forgive_down_machines(cases: Cases) -> None:
    """Where the cluster finds a node not Ready, no worker can be expected to speak."""
    down = {name for case in cases.left if case.code == "node-not-ready" for name in case.subjects}
    silence = {"worker-stale", "no-worker"}
    cases.take(lambda case: case.code in silence and down.issuperset(case.subjects))


def _all_silent(document: TopologyDocument, cases: Cases) -> Iterator[Finding]:
    """Every node that reported has stopped: that is the way to the master, not each of them."""
    stale = [case for case in cases.left if case.code == "worker-stale"]
    silent = subjects(stale)
    unheard = {name for case in cases.left if case.code == "no-worker" for name in case.subjects}
    placed = [v["name"] for _, v in walk(document["groups"]) if not is_group(v)]
    reported = {*placed, *(entry["name"] for entry in document["unplaced"])} - unheard
    if document["mode"] == "config" or len(silent) < 2 or reported != set(silent):
        return
    cases.of("worker-stale")
    what = f"all {number(silent, 'worker')} are silent: {stale[0].text}"
    next_step = f"see the log of one, such as that of {silent[0]}: does its --server-address still "
    next_step += "lead to the master's --rpc-server-port (10001 unless set)?"
    yield _wrong("worker-stale", [WORKERS], what, next_step)


def _unreported(document: TopologyDocument, cases: Cases) -> list[Case]:
    """Take out what follows where workers have not reported; the nodes and machines without one.

    That is: servers that others see, these others without a peer, and the groups short of them.
    """
    waiting, unknown = cases.of("no-worker", "unjoined"), cases.of("unknown-peer")
    nodes = set(subjects(unknown))
    short = {"/".join(m["group"][:depth]) for m in document["unjoined"] for depth in range(1, 9)}
    for path, vertex in walk(document["groups"]):
        if vertex["name"] in nodes and not is_group(vertex):
            short.update("/".join(path[:depth]) for depth in range(1, len(path)))
    cases.take(lambda case: case.code == "no-peer" and nodes.issuperset(case.subjects))
    cases.take(lambda case: case.code in {"empty", "incomplete"} and case.subjects[0] in short)
    return waiting


def _other_mode(document: TopologyDocument, cases: Cases) -> Iterator[Finding]:
    nodes = subjects(found := cases.of("other-fabric"))
    if nodes:
        what = f"--mode={document['mode']} cannot place {number(nodes, 'node')}; {nodes[0]}: "
        what += found[0].text
        yield _wrong("other-fabric", nodes, what, step("other-fabric", nodes[0], document["mode"]))


def _forgive_without_inventory(manager: SourceDocument | None, cases: Cases) -> None:
    """A manager that never answered has listed no machine: that is no fault of the nodes."""
    if manager is not None and manager["age_s"] is None and manager["state"] != "ok":
        cases.of("not-managed")


def _clones(cases: Cases) -> Iterator[Finding]:
    """Links of nodes that share a server UUID can mean either of them, and so join nobody."""
    clones = cases.of("cloned-server-uuid")
    twins = frozenset(subjects(clones))
    links = cases.take(
        lambda case: case.code == "one-sided-link" and not twins.isdisjoint(case.subjects)
    )
    touched = twins.union(subjects(links))
    alone = cases.take(
        lambda case: case.code in {"no-peer", "unknown-peer"} and touched.issuperset(case.subjects)
    )
    for part in _parts(clones):
        names, first = subjects(part), part[0]
        owners = set(names)
        around = subjects(case for case in links if not owners.isdisjoint(case.subjects))
        joined = sorted({*around, *names} & set(subjects(alone)), key=natural_key)
        what = first.text
        if len(part) > 1:
            what = f"{len(part)} server UUIDs are stated by several nodes: {what}"
        more = f"; because of it {listed(joined)} joined nobody" if joined else ""
        yield _wrong(first.code, names, what + more, first.fix)


def _machines_without_workers(document: TopologyDocument, cases: Cases) -> Iterator[Finding]:
    """Machines that no node answers to: their workers are missing, or their names differ."""
    unjoined = [case for case in cases.left if case.code == "unjoined"]
    if not unjoined:
        return
    names, strangers = subjects(unjoined), subjects(cases.of("not-managed"))
    if strangers:
        cases.of("unjoined")
        what = f"{number(names, 'machine')} of the cluster manager and {number(strangers, 'node')} "
        what += f"that report ({listed(strangers)}) have no name in common: {unjoined[0].text}"
        next_step = f"compare with `topo node {strangers[0]}`; --join-keys says which names count"
    else:
        _unreported(document, cases)
        what = f"no worker has reported from {number(names, 'machine')} of the cluster manager: "
        what += unjoined[0].text
        next_step = "start topo-worker there; where it runs, its log says why it is not heard"
    yield _wrong("unjoined", names, what, next_step)


def _servers_without_workers(document: TopologyDocument, cases: Cases) -> Iterator[Finding]:
    unknown = [case for case in cases.left if case.code == "unknown-peer"]
    if not unknown:
        return
    _unreported(document, cases)
    nodes, what = subjects(unknown), unknown[0].text
    if len(nodes) > 1:
        what = f"{number(nodes, 'node')} see servers from which no worker has reported"
    yield _wrong("unknown-peer", nodes, what, step("unknown-peer", nodes[0], ""))


def _cut_cables(document: TopologyDocument, cases: Cases) -> Iterator[Finding]:
    """A cable has two ends, and both complain: it is one finding, with the slots at both."""
    down = [wire for wire in document["wires"] if wire["state"] == "down"]
    down.sort(key=lambda wire: (natural_key(wire["node"]), wire["slot"]))
    ends = {end for wire in down for end in (wire["node"], wire["peer"])}
    cases.take(lambda case: case.code == "link-down" and ends.issuperset(case.subjects))
    for wires in _parts(down):
        first, cables = wires[0], [f"{_end(w['node'], w['slot'])} to {_far_end(w)}" for w in wires]
        plural = "cables are" if len(cables) > 1 else "cable is"
        what = f"{len(cables)} {plural} down: {listed(cables)}"
        nodes = list(dict.fromkeys(end for w in wires for end in (w["node"], w["peer"]) if end))
        yield _wrong("link-down", nodes, what, step("link-down", first["node"], ""))


def _parts(things: list[_T]) -> list[list[_T]]:
    """Each alone, or all together where they are many."""
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
    """Ready nodes of which nobody says how many GPUs they have: no job can be placed there.

    Only a config file calls a node Ready whose worker never spoke; elsewhere it told of 0 GPUs.
    """
    leaves = [vertex for _, vertex in walk(document["groups"]) if not is_group(vertex)]
    bare = [node["name"] for node in leaves if node["status"] == "Ready" and not node["gpus"]]
    of_file = set(_listed_by_file(document))
    unknown = [name for name in bare if name in of_file]
    seeing_none = [name for name in bare if name not in of_file]
    for names, code, why in (
        (unknown, "no-gpus", "Ready without a known number of GPUs"),
        (seeing_none, "no-gpus-seen", "Ready, and the worker there sees no GPU"),
    ):
        if names:
            what = f"{len(names)} of {number(leaves, 'node')} {why}: no job can be placed there"
            yield _wrong(code, names, what, step(code, names[0], document["mode"]))


def _listed_by_file(document: TopologyDocument) -> Iterator[str]:
    """The nodes that may have no worker: their own group is one of the config file."""
    for _, group in walk(document["groups"]):
        if is_group(group) and group["source"] == CONFIG_FILE:
            yield from (child["name"] for child in group["child"] if not is_group(child))
