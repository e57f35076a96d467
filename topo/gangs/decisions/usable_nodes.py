"""The nodes that the pods of one question may use, full or not.

Result: for each eligibility its hosts.

Cost: of pods that select nodes O(their nodes), for the capacity keeps the values of labels between
questions; of others O(nodes). Each eligibility is read once in a question.

Example: 256 pods that select a rack each, of 40 racks: 40 lists of hosts, no look at other nodes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate

from topo.gangs.machine.gang import Member
from topo.model.ids import NodeName
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import Host, is_eligible
from topo.placement.job.request import Eligibility, Request


class UsableNodes:
    """The nodes that pods of one question may use; each eligibility is read once."""

    def __init__(self, capacity: CapacityView, request: Request) -> None:
        self._capacity = capacity
        self._ends = tuple(accumulate(pods for pods, _ in request.by_rank))
        """The rank after the last one of each run of `by_rank`: ranks go to a million."""
        self._runs = (*(each for _, each in request.by_rank), request.eligible)
        self._nodes: dict[Eligibility, list[Host]] = {}
        self._names: dict[Eligibility, frozenset[NodeName]] = {}

    def eligible(self, rank: int) -> Eligibility:
        """Return what a pod requires of its node; O(log runs)."""
        return self._runs[bisect_right(self._ends, rank)]

    def hosts(self, eligible: Eligibility) -> Sequence[Host]:
        """Return the hosts that pods of this eligibility may use, in the order of the domains."""
        found = self._nodes.get(eligible)
        if found is None:
            hosts = self._sorted(eligible)
            found = self._nodes[eligible] = [each for each in hosts if is_eligible(each, eligible)]
        return found

    def _sorted(self, eligible: Eligibility) -> Sequence[Host]:
        """Return the hosts with the labels that pods select, or those that they do not exclude."""
        capacity = self._capacity
        if not (eligible.selector or eligible.exclude):
            return self._every
        if eligible.selector:
            hosts = capacity.labelled(eligible.selector)
        else:
            left = self._every_name - eligible.exclude
            hosts = [host for host in map(capacity.host, sorted(left)) if host is not None]
        return sorted(hosts, key=lambda host: capacity.domain_of(host.name))

    @cached_property
    def _every(self) -> Sequence[Host]:
        return self._capacity.hosts()

    @cached_property
    def _every_name(self) -> frozenset[NodeName]:
        return frozenset(host.name for host in self._every)

    def names(self, eligible: Eligibility) -> frozenset[NodeName]:
        """Return the names of these hosts."""
        found = self._names.get(eligible)
        if found is None:
            names = (host.name for host in self.hosts(eligible))
            found = self._names[eligible] = frozenset(names)
        return found

    def fewest(self, pods: Iterable[Member]) -> Sequence[Host]:
        """Return the hosts of that of the pods that may use the fewest."""
        kinds = dict.fromkeys(self.eligible(pod.rank) for pod in pods)
        return min((self.hosts(each) for each in kinds), key=len)
