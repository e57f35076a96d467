"""What a scheduler is told of the nodes that it names for a pod.

A pod of a group gets the nodes that are kept for its group, best the one of its rank. Any other pod
with GPUs gets the nodes that have so many left beside all holds: a scheduler knows nothing of them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import filterfalse

from topo.model.ids import NodeName

BEST, GOOD = 10, 5
"""Scores of the node of the pod's rank, and of other nodes kept for its group; 0 for the rest.
Source: `MaxExtenderPriority`, k8s.io/kube-scheduler extender/v1, types.go."""
NOT_PLANNED = "topo: not kept for the pod's group"
HELD = "topo: its free GPUs are held for another job"


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """Nodes that passed, and the others by the reason; `error`: there is no answer yet.

    `is_final`: evicting pods would not help on the failed nodes.
    """

    passed: Sequence[str] = ()
    failed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_final: bool = False
    error: str = ""

    def first(self) -> "NodeVerdict":
        """Return the verdict with its first node alone."""
        if len(self.passed) < 2:
            return self
        first, rest = self.passed[:1], self.passed[1:]
        failed = {**self.failed, f"topo: {first[0]} is taken": rest}
        return replace(self, passed=first, failed=failed)


def of_planned(names: Sequence[str], kept: Collection[str]) -> NodeVerdict:
    """Return the nodes that are kept for the pod's group. O(names)."""
    is_kept = frozenset(kept).__contains__
    passed, failed = tuple(filter(is_kept, names)), tuple(filterfalse(is_kept, names))
    return NodeVerdict(passed, {NOT_PLANNED: failed}, is_final=True)


def planned_scores(kept: Collection[NodeName], own: NodeName | None) -> Mapping[str, int]:
    """Return the scores of the nodes kept for the pod's group; `own` is that of its rank."""
    return {name: BEST if name == own else GOOD for name in kept}


def of_refused(names: Sequence[str], why: str) -> NodeVerdict:
    """Return that no node takes the pod, since its group has no room."""
    return NodeVerdict(failed={f"topo: {why}": names})


def of_impossible(names: Sequence[str], why: str) -> NodeVerdict:
    """Return that no node ever takes the pod, whatever ends on it."""
    return NodeVerdict(failed={f"topo: {why}": names}, is_final=True)


def of_others(names: Sequence[str], short: Collection[str]) -> NodeVerdict:
    """Return all nodes but those that are short of GPUs beside what is booked. O(names)."""
    is_short = frozenset(short).__contains__
    passed = tuple(filterfalse(is_short, names))
    failed = tuple(filter(is_short, names)) if len(passed) < len(names) else ()
    return NodeVerdict(passed, {HELD: failed})
