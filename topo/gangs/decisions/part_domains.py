"""Which parts a job states, in which domains nodes are, and which of these no part may have.

A domain is the nodes with one value of a label, as schedulers see it. Result: the nodes that other
jobs keep for themselves, and those of a plan on which its parts cannot be any more.

Cost: O(nodes) for each label that is asked for; nothing for jobs without such labels.

Example: two parts planned on racks r1 and r2. A pod of another such job is bound in r2: the nodes
of the second part are misplaced. A part of which a pod runs in r1 has r1, whoever else is there.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping

from topo.gangs.machine.instructions import Check, Occupied
from topo.model.ids import NodeName
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import Host
from topo.placement.job.request import Request


class StatedParts:
    """The parts of a job, by the ranks that it states."""

    def __init__(self, request: Request) -> None:
        runs = [run for run in request.own_domains for _ in range(run.times)]
        self._labels = [run.label for run in runs]
        self._of_rank = [at for at, run in enumerate(runs) for _ in range(run.pods)]

    def part(self, rank: int) -> int:
        """Return the number of the part that a rank is of; -1 beyond what was stated."""
        return self._of_rank[rank] if rank < len(self._of_rank) else -1

    def label(self, part: int) -> str:
        """Return the label of the domain of a part; empty for one that needs none."""
        return self._labels[part] if part >= 0 else ""

    def all_labels(self) -> Iterable[str]:
        """Return the labels of the domains, each once."""
        return filter(None, dict.fromkeys(self._labels))


def values_of(hosts: Iterable[Host], label: str) -> Mapping[NodeName, str]:
    """Return the value of a label on each host that has it; O(nodes), labels are sorted."""
    found: dict[NodeName, str] = {}
    for host in hosts:
        stated = host.stated_labels
        at = bisect_left(stated, (label, ""))
        if at < len(stated) and stated[at][0] == label:
            found[host.name] = stated[at][1]
    return found


def nodes_kept_apart(capacity: CapacityView, occupied: Collection[Occupied]) -> list[NodeName]:
    """Return the nodes of domains that other jobs keep for themselves; O(nodes)."""
    labels = {each.label for each in occupied if each.label}
    if not labels:
        return []
    hosts = capacity.hosts()
    values = {label: values_of(hosts, label) for label in labels}
    closed = {(each.label, values[each.label].get(each.node)) for each in occupied if each.label}
    nodes = (
        node
        for label, of_nodes in values.items()
        for node, value in of_nodes.items()
        if (label, value) in closed
    )
    return list(dict.fromkeys(nodes))


def misplaced_nodes(capacity: CapacityView, check: Check) -> dict[NodeName, str]:
    """Return the waiting pods' nodes in domains that are not theirs, each with the reason.

    Pods of a part that are not in the domain of its first one; parts in a domain of other jobs or
    of an earlier part, of which no pod runs; pods in a domain that another job has for itself.
    O(nodes), for a job without kin and own domains O(1).
    """
    apart = {*nodes_kept_apart(capacity, check.occupied)}
    why = "node {} is in a domain that another job has for itself"
    found = {node: why.format(node) for _, node in check.waiting if node in apart}
    stated = StatedParts(check.request)
    for label in stated.all_labels():
        for node in _misplaced_by(label, values_of(capacity.hosts(), label), check, stated):
            found.setdefault(node, f"node {node} is in no domain of {label} that its part may have")
    return found


def _misplaced_by(
    label: str, values: Mapping[NodeName, str], check: Check, stated: StatedParts
) -> Iterator[NodeName]:
    ran, waiting = dict[int, list[NodeName]](), dict[int, list[NodeName]]()
    for rank, node in check.bound:
        ran.setdefault(stated.part(rank), []).append(node)
    for pod, node in check.waiting:
        waiting.setdefault(stated.part(pod.rank), []).append(node)
    users = {values.get(each.node): -2 for each in check.occupied}
    users |= {values.get(node): part for part, nodes in ran.items() for node in nodes}
    for part, nodes in sorted(waiting.items()):
        home = values.get(ran.get(part, nodes)[0])
        is_free = part in ran or (home is not None and users.get(home, part) == part)
        if stated.label(part) == label:
            yield from (node for node in nodes if not is_free or values.get(node) != home)
        users |= {values.get(node): part for node in nodes}
