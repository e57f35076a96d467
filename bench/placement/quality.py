"""How good plans are: what their bounds prove, and beside what other schedulers would choose."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.placement.instances import Instance, aligned, kept, mixed, nested, torn
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Objective, Pods
from topo.placement.quality.measure import measure
from topo.sim.baselines import BASELINES
from topo.sim.baselines.cluster import place as place_by

RIVALS = ("kueue-best-fit", "kueue-least-free", "volcano")
KINDS: Mapping[str, Callable[[int], Instance]] = {"aligned": aligned, "mixed": mixed}


ON_PAIRS: Mapping[str, Callable[[int], Instance]] = {"nested": nested, "torn": torn, "kept": kept}


@dataclass(frozen=True, slots=True)
class Quality:
    """Counts of plans: all, those proven on every span, those that counting alone would prove.

    By rival, those that are worse and better than its choice.
    """

    plans: int = 0
    proven: int = 0
    counted: int = 0
    worse: Counter[str] = field(default_factory=Counter)
    better: Counter[str] = field(default_factory=Counter)

    def share(self, count: int) -> float:
        """Per cent of the plans."""
        return 100 * count / self.plans if self.plans else 0.0


def quality(kind: str, seeds: Sequence[int]) -> Quality:
    """Plans of seeded instances beside those of the rivals on (split, spans)."""
    plans = proven = counted = 0
    worse: Counter[str] = Counter()
    better: Counter[str] = Counter()
    for seed in seeds:
        asked = KINDS[kind](seed)
        answer = place(asked.capacity, asked.request)
        if isinstance(answer, NoFit):
            continue
        plans += 1
        proven += answer.certified["top_groups"] and answer.certified["tier1_groups"]
        counted += answer.objective.span == _least_spans(asked)
        for rival in RIVALS:
            theirs = place_by(asked.capacity, asked.request, BASELINES[rival])
            compared = _compared(asked, answer.objective, theirs)
            worse[rival] += compared > 0
            better[rival] += compared < 0
    return Quality(plans, proven, counted, worse, better)


def proven_in_every_number(kind: str, seeds: Sequence[int]) -> Mapping[str, tuple[int, int]]:
    """Plans and those proven in all numbers, apart for groups whole and groups split."""
    found: dict[str, tuple[int, int]] = {}
    for seed in seeds:
        asked = ON_PAIRS[kind](seed)
        answer = place(asked.capacity, asked.request)
        if not isinstance(answer, NoFit):
            how = "groups split" if answer.objective.split_groups else "groups whole"
            plans, proven = found.get(how, (0, 0))
            found[how] = plans + 1, proven + all(answer.certified.values())
    return found


def _least_spans(asked: Instance) -> tuple[int, int]:
    """The bounds of docs/placement.md on switchboxes and dragonflies.

    The fewest domains whose largest capacities have room for all groups and for all pods.
    """
    request, k = asked.request, asked.request.pods_per_group
    room: Counter[tuple[str, ...]] = Counter()
    free: Counter[tuple[str, ...]] = Counter()
    for host in asked.capacity.hosts():
        room[host.path] += host.gpus // request.gpus_per_pod
        free[host.path] += asked.capacity.free(host.name) // request.gpus_per_pod
    inside = max(room.values()) >= k
    groups = {path: slots // k for path, slots in free.items()} if inside else {}
    tops: Counter[str] = Counter()
    top_groups: Counter[str] = Counter()
    for path, slots in free.items():
        tops[path[0]] += slots
        top_groups[path[0]] += groups.get(path, 0)
    if not inside:
        top_groups = Counter({top: slots // k for top, slots in tops.items()})
    top = max(_fewest(top_groups, request.whole_groups), _fewest(tops, request.pods))
    low = max(_fewest(groups, request.whole_groups if inside else 0), _fewest(free, request.pods))
    return top, low


def _fewest(capacities: Mapping[Any, int], need: int) -> int:
    """How many of the largest capacities reach a sum."""
    total = 0
    for used, capacity in enumerate(sorted(capacities.values(), reverse=True)):
        if total >= need:
            return used
        total += capacity
    return len(capacities)


def _compared(asked: Instance, mine: Objective, theirs: tuple[Pods, ...] | None) -> int:
    """-1 where the plan is better than a rival's or the rival has none, 1 where it is worse."""
    if theirs is None:
        return -1
    other = measure(asked.capacity, asked.request, theirs)
    one, two = (mine.split_groups, mine.span), (other.split_groups, other.span)
    return (one > two) - (one < two)
