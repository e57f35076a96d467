"""Worlds of every kind that placement must bear: a dozen domains for brute force, or more."""

from dataclasses import replace

from hypothesis import strategies as st

from topo.model.cluster import Taint
from topo.model.ids import DRAGONFLY, SWITCHBOX, GroupName, GroupPath, Kind, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import Host
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility, PlacementMode, Request, Toleration

POD = Kind("pod")
LADDER = (POD, SWITCHBOX, DRAGONFLY)
"""Kinds of tier 3, 2 and 1."""
TAINT = Taint("reserved", "x")
TOLERATIONS = (Toleration("reserved", "Equal", "x", "NoSchedule"), Toleration(operator="Exists"))
SMALL_DOMAINS, SMALL_PODS = 12, 8

KEPT = st.sampled_from(
    [
        GroupPath(tuple(map(GroupName, path)))
        for path in (
            ("dragonfly-1",),
            ("switchbox-1",),
            ("switchbox-2",),
            ("switchbox-1", "dragonfly-1"),
            ("pod-1",),
            ("pod-1", "switchbox-1"),
        )
    ]
)
"""Groups that worlds may have, to keep canonical groups free in."""


def policies_with(
    reserves: st.SearchStrategy[tuple[tuple[GroupPath, int], ...]],
) -> st.SearchStrategy[Policy]:
    """What an operator may have decided."""
    return st.builds(
        Policy,
        canonical_gpus=st.sampled_from((64, 32, 16, 8)),
        gpu_types=st.sampled_from(((), ("B",), ("B", "A"))),
        reserves=reserves,
    )


policies = policies_with(st.just(()))
reserving = policies_with(
    st.lists(st.tuples(KEPT, st.integers(1, 3)), min_size=1, max_size=2).map(tuple)
)
"""Policies with one or two reserves."""

eligibilities = st.builds(
    Eligibility,
    gpu_type=st.sampled_from((None, None, "A", "B", "C")),
    selector=st.sampled_from(((), (), (("zone", "1"),))),
    tolerations=st.lists(st.sampled_from(TOLERATIONS), max_size=1).map(tuple),
    exclude=st.frozensets(st.integers(1, 9).map(lambda n: NodeName(f"node-{n}")), max_size=2),
)


@st.composite
def requests(draw: st.DrawFn, most_pods: int = SMALL_PODS) -> Request:
    """Few pods, in groups of a few or all in one."""
    gpus = draw(st.sampled_from((8, 8, 4, 2, 16)))
    k = draw(st.sampled_from((None, 1, 2, 3, 4, 6)))
    return Request(
        pods=draw(st.integers(1, most_pods)),
        gpus_per_pod=gpus,
        group_size=None if k is None else k * gpus,
        mode=draw(st.sampled_from(PlacementMode)),
        within=draw(st.sampled_from((None, None, None, None, *LADDER, Kind("rack")))),
        eligible=draw(st.just(Eligibility()) | eligibilities),
    )


@st.composite
def capacities(draw: st.DrawFn, policy: Policy, most_domains: int = SMALL_DOMAINS) -> Capacity:
    """One to three tiers, nodes right under higher groups and in none, all sizes and states.

    Each group of the lowest tier, and each node outside of one, is a domain.
    """
    capacity = Capacity(policy)
    tiers = draw(st.integers(1, 3))
    simple = draw(st.booleans())
    domains = draw(st.integers(1, most_domains))
    number = 0
    for index in range(1, domains + 1):
        present = (
            [True] * tiers
            if simple
            else draw(st.lists(st.booleans(), min_size=tiers, max_size=tiers))
        )
        rungs = [
            (LADDER[-tier], tier, GroupName(f"{LADDER[-tier]}-{_name(draw, tier, index)}"))
            for tier in range(tiers, 0, -1)
            if present[tiers - tier]
        ]
        for _ in range(draw(st.integers(1, 4)) if present[-1] else 1):
            number += 1
            capacity.upsert(_host(draw, number, rungs, simple=simple))
            used = draw(st.sampled_from((0, 0, 0, 8, 4)))
            if used:
                capacity.book(f"job-{number}", {NodeName(f"node-{number}"): used})
    return capacity


def _name(draw: st.DrawFn, tier: int, index: int) -> int:
    return index if tier == 1 else draw(st.integers(1, 3 if tier == 2 else 2))


def _host(
    draw: st.DrawFn, number: int, rungs: list[tuple[Kind, int, GroupName]], *, simple: bool
) -> Host:
    plain = Host(
        name=NodeName(f"node-{number}"),
        path=GroupPath(tuple(name for _, _, name in rungs)),
        kinds=tuple(kind for kind, _, _ in rungs),
        tiers=tuple(tier for _, tier, _ in rungs),
        gpus=8,
        gpu_type="A",
    )
    if simple:
        return plain
    state = draw(st.integers(0, 9))
    return replace(
        plain,
        gpus=draw(st.sampled_from((8, 8, 8, 4, 16))),
        gpu_type=draw(st.sampled_from(("A", "A", "A", "B"))),
        ready=state != 0,
        cordoned=state == 1,
        labels=draw(st.sampled_from(((), (("zone", "1"),)))),
        taints=(TAINT,) if state == 2 else (),
        penalty=draw(st.sampled_from((0, 0, 1, 3))),
    )
