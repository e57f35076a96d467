"""What a scheduler is told of the nodes that it names for a pod.

A pod of a group gets the nodes that are kept for its group, best the one of its rank. Any other pod
with GPUs gets the nodes that have so many left beside all holds: a scheduler knows nothing of them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from topo.model.ids import NodeName

BEST, GOOD = 10, 5
"""Scores of the node of the pod's rank, and of other nodes kept for its group; 0 for the rest.
Source: `MaxExtenderPriority`, k8s.io/kube-scheduler extender/v1, types.go."""
NOT_PLANNED = "topo: not kept for the pod's group"
HELD = "topo: its free GPUs are held for another job"


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """Nodes that passed, and for each other node why not; `error`: there is no answer yet.

    `is_final`: evicting pods would not help on the failed nodes. `scores` are those above 0.
    """

    passed: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    is_final: bool = False
    scores: Mapping[str, int] = field(default_factory=dict)
    error: str = ""

    def first(self) -> "NodeVerdict":
        """Return the verdict with its first node alone."""
        if len(self.passed) < 2:
            return self
        first, rest = self.passed[:1], self.passed[1:]
        others = dict.fromkeys(rest, f"topo: {first[0]} is taken")
        return replace(self, passed=first, failed={**self.failed, **others})


def of_planned(
    names: Iterable[str], kept: Mapping[NodeName, int], own: NodeName | None
) -> NodeVerdict:
    """Return the nodes with kept places for the pod's group; `own` is that of its rank.

    O(names).
    """
    passed, failed = list[str](), dict[str, str]()
    for name in names:
        if kept.get(NodeName(name)):
            passed.append(name)
        else:
            failed[name] = NOT_PLANNED
    scores = {name: BEST if name == own else GOOD for name in passed}
    return NodeVerdict(tuple(passed), failed, is_final=True, scores=scores)


def of_refused(names: Iterable[str], why: str) -> NodeVerdict:
    """Return that no node takes the pod, since its group has no room. O(names)."""
    return NodeVerdict(failed=dict.fromkeys(names, f"topo: {why}"))


def of_others(names: Iterable[str], short: Collection[str]) -> NodeVerdict:
    """Return all nodes but those that are short of GPUs beside what is booked. O(names)."""
    passed = tuple(name for name in names if name not in short)
    return NodeVerdict(passed, dict.fromkeys(short, HELD))


def of_all(names: Iterable[str]) -> NodeVerdict:
    """Return that every node passes: the pod is none of ours."""
    return NodeVerdict(tuple(names))
