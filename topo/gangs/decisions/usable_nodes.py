"""The nodes that the pods of one question may use, full or not.

Result: for each eligibility its hosts, in the order of the capacity.

Cost: O(nodes) once, and O(nodes x labels) for each key of a label that pods select; then for each
eligibility O(nodes with its rarest label), once.

Example: 256 pods that select a rack each, of 40 racks: 40 lists of hosts, made by one look at the
label of each node.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from topo.gangs.machine.gang import Member
from topo.model.ids import GroupPath, NodeName
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import Host, is_eligible
from topo.placement.job.request import Eligibility, Request


class UsableNodes:
    """The nodes that pods of one question may use; each eligibility is read once."""

    def __init__(self, capacity: CapacityView, request: Request) -> None:
        self._hosts = list(capacity.hosts())
        self._ends = tuple(accumulate(pods for pods, _ in request.by_rank))
        """The rank after the last one of each run of `by_rank`: ranks go to a million."""
        self._runs = (*(each for _, each in request.by_rank), request.eligible)
        self._outermost = {host.name: GroupPath(host.path[:1]) for host in self._hosts}
        self._labelled: dict[str, dict[str, list[Host]]] = {}
        self._nodes: dict[Eligibility, list[Host]] = {}

    def outermost(self, node: NodeName) -> GroupPath:
        """Return the outermost group of a known node."""
        return self._outermost[node]

    def eligible(self, rank: int) -> Eligibility:
        """Return what a pod requires of its node; O(log runs)."""
        return self._runs[bisect_right(self._ends, rank)]

    def hosts(self, eligible: Eligibility) -> Sequence[Host]:
        """Return the hosts that pods of this eligibility may use, in the order of the capacity."""
        found = self._nodes.get(eligible)
        if found is None:
            with_labels = (self._with(*pair) for pair in eligible.selector)
            hosts = min(with_labels, key=len, default=self._hosts)
            found = self._nodes[eligible] = [each for each in hosts if is_eligible(each, eligible)]
        return found

    def fewest(self, pods: Iterable[Member]) -> Sequence[Host]:
        """Return the hosts of that of the pods that may use the fewest."""
        kinds = dict.fromkeys(self.eligible(pod.rank) for pod in pods)
        return min((self.hosts(each) for each in kinds), key=len)

    def _with(self, key: str, value: str) -> list[Host]:
        of_key = self._labelled.get(key)
        if of_key is None:
            of_key = self._labelled[key] = {}
            for host in self._hosts:
                for name, stated in host.labels:
                    if name == key:
                        of_key.setdefault(stated, []).append(host)
        return of_key.get(value, [])
