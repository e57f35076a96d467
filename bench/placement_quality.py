"""How good plans are: what their bounds prove, and beside what other schedulers would choose."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from topo.placement.engine import place
from topo.placement.measure import measure
from topo.placement.objective import Objective
from topo.placement.plan import NoFit, Pods
from topo.sim.baselines import BASELINES
from topo.sim.clusters import Instance, aligned, mixed

RIVALS = ("kueue-best-fit", "kueue-least-free", "volcano")
KINDS: Mapping[str, Callable[[int], Instance]] = {"aligned": aligned, "mixed": mixed}


@dataclass(frozen=True, slots=True)
class Quality:
    """Counts of plans: all, those proven on every span, and by rival those worse and better."""

    plans: int = 0
    proven: int = 0
    worse: Counter[str] = field(default_factory=Counter)
    better: Counter[str] = field(default_factory=Counter)

    def share(self, count: int) -> float:
        """Per cent of the plans."""
        return 100 * count / self.plans if self.plans else 0.0


def quality(kind: str, seeds: Sequence[int]) -> Quality:
    """Plans of seeded instances beside those of the rivals on (split, spans)."""
    plans = proven = 0
    worse: Counter[str] = Counter()
    better: Counter[str] = Counter()
    for seed in seeds:
        asked = KINDS[kind](seed)
        answer = place(asked.capacity, asked.request)
        if isinstance(answer, NoFit):
            continue
        plans += 1
        proven += answer.certified["top_groups"] and answer.certified["tier1_groups"]
        for rival in RIVALS:
            theirs = BASELINES[rival](asked.capacity, asked.request)
            compared = _compared(asked, answer.objective, theirs)
            worse[rival] += compared > 0
            better[rival] += compared < 0
    return Quality(plans, proven, worse, better)


def _compared(asked: Instance, mine: Objective, theirs: tuple[Pods, ...] | None) -> int:
    """-1 where the plan is better than a rival's or the rival has none, 1 where it is worse."""
    if theirs is None:
        return -1
    other = measure(asked.capacity, asked.request, theirs)
    one, two = (mine.split_groups, mine.span), (other.split_groups, other.span)
    return (one > two) - (one < two)
