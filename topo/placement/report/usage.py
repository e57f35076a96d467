"""How full the groups are that a plan uses: what people see as bars beside the tree."""

from collections import Counter
from dataclasses import dataclass

from topo.model.ids import NODE, GroupPath, Kind
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.job.plan import Plan
from topo.placement.job.request import Eligibility

_ONE_GPU = 1


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """GPUs of the plan's type in one group: free on open nodes before the plan, and taken by it.

    Nodes whose taints the job would have to tolerate are not counted.
    """

    path: GroupPath
    kind: Kind
    tier: int
    free_gpus: int
    taken_gpus: int


def group_usage(capacity: CapacityView, plan: Plan) -> tuple[GroupUsage, ...]:
    """Return a row for every group that a node of the plan is in, in the order of the tree, parents
    first.

    `capacity` is the one that the plan was made on. O(nodes of the plan x tiers).
    """
    layout = capacity.layout()
    by_domain = _taken_by_domain(capacity, plan)
    slots = capacity.slots(Eligibility(gpu_type=plan.gpu_type), plan.gpu_type, _ONE_GPU)
    rows: dict[GroupPath, tuple[int, int, GroupUsage]] = {}
    for tier in range(1, layout.tiers + 1):
        taken: Counter[int] = Counter()
        for at, gpus in by_domain.items():
            taken[layout.of[tier][at]] += gpus
        for domain, gpus in taken.items():
            ref = layout.ref(tier, domain)
            if ref.kind == NODE or ref.path in rows:
                continue
            first, last = layout.firsts[tier][domain], layout.firsts[tier][domain + 1]
            free = int(slots.free[first:last].sum())
            rows[ref.path] = first, -tier, GroupUsage(ref.path, ref.kind, tier, free, gpus)
    return tuple(usage for _, _, usage in sorted(rows.values(), key=lambda row: row[:2]))


def _taken_by_domain(capacity: CapacityView, plan: Plan) -> Counter[int]:
    """Return GPUs that the plan takes, by tier-1 domain."""
    by_domain: Counter[int] = Counter()
    for group in plan.groups:
        for at, pods in capacity.located(group.pods, []).items():
            by_domain[at] += pods * plan.request.gpus_per_pod
    return by_domain
