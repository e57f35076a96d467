"""What a namespace may keep ahead of its pods: a quota, else a share, never more by another way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.placement.booking.ahead import (
    AheadLimit,
    AheadRequest,
    KeptAhead,
    excess,
    kept_gpus,
    share_limit,
)
from topo.placement.booking.holds import HoldId

TYPES = ("C500", "C600")


def keep(name: str, gpus: int, gpu_type: str = "C500", workload: str = "") -> KeptAhead:
    return KeptAhead(
        id=name,
        namespace="jobs",
        kind="gang",
        name=name,
        gpu_type=gpu_type,
        gpus=gpus,
        since_s=0.0,
        workload=workload,
        holds=(HoldId(f"hold-{name}"),),
    )


def asked(name: str, gpus: int, workload: str = "", own: tuple[str, ...] = ()) -> AheadRequest:
    return AheadRequest(
        id=name,
        namespace="jobs",
        gpus=gpus,
        gpu_type="C500",
        pods=gpus // 8,
        resource="metax-tech.com/gpu",
        workload=workload,
        own=tuple(map(HoldId, own)),
    )


def none_queued(_namespace: str, _name: str) -> int:
    return 0


@pytest.mark.parametrize(
    ("share", "gpus", "group_gpus", "limit"),
    [
        (0.25, 64, 16, 16),
        (0.25, 512, 16, 128),
        (0.25, 80, 16, 20),
        (0.29, 100, 16, 29),  # 0.29 * 100 is less than 29 in binary fractions
        (0.25, 16, 16, 8),  # one dragonfly is all there is: a pair may keep its second node
        (0.25, 64, 64, 32),  # no more than half, where one group is all
        (0.25, 0, 0, 0),
        (0.0, 64, 16, 0),
        (1.0, 64, 16, None),
    ],
)
def test_a_share_is_at_least_one_group_and_no_more_than_half_for_that(
    share: float, gpus: int, group_gpus: int, limit: int | None
) -> None:
    assert share_limit(share, gpus, group_gpus).gpus == limit


def test_the_refusal_has_the_numbers_and_says_what_to_do() -> None:
    limit = share_limit(0.25, 64, 16)
    why = excess(asked("b", 16), [keep("a", 8)], limit, none_queued, total=64)
    assert why == (
        "namespace jobs keeps 8 of 64 GPUs of type C500 ahead of its pods and may keep 16 "
        "(--ahead-share 0.25 of 64 GPUs): this job would keep 16 more for 2 pods that are not"
        " there yet; have all of its pods made at once, or ask the operator for a ResourceQuota"
        " on requests.metax-tech.com/gpu (--ahead-share)"
    )


def test_a_keeper_may_have_what_it_has_also_where_the_limit_fell() -> None:
    none = AheadLimit(0, "ResourceQuota jobs/gpus", is_quota=True)
    has = [keep("a", 32), keep("b", 8)]
    assert excess(asked("a", 32), has, none, none_queued, total=64) == ""
    assert excess(asked("a", 24), has, none, none_queued, total=64) == ""
    assert excess(asked("a", 40), has, none, none_queued, total=64)
    # A gang that takes over what was booked before its pods were there.
    assert excess(asked("c", 8, own=("hold-b",)), has, none, none_queued, total=64) == ""


def test_what_a_queue_reserved_counts_against_a_quota_and_not_against_a_share() -> None:
    def reserved(_namespace: str, name: str) -> int:
        return {"job-a": 48}.get(name, 0)

    share = share_limit(0.25, 64, 16)
    quota = AheadLimit(16, "ResourceQuota jobs/gpus", is_quota=True)
    assert excess(asked("a", 48, "job-a"), [], share, reserved, total=64) == ""
    assert excess(asked("a", 48, "job-a"), [], quota, reserved, total=64)
    # Two that name one workload have its quota once.
    both = [keep("a", 48, workload="job-a")]
    assert excess(asked("b", 16, "job-a"), both, share, reserved, total=64) == ""
    assert excess(asked("b", 24, "job-a"), both, share, reserved, total=64)
    assert excess(asked("c", 24, "job-of-nobody"), [], share, reserved, total=64)


def test_a_share_is_of_one_type_and_a_quota_of_all() -> None:
    has = [keep("a", 16, "C600")]
    assert kept_gpus(has, share_limit(0.25, 64, 16), "C500", none_queued) == 0
    assert kept_gpus(has, AheadLimit(16, "quota", is_quota=True), "C500", none_queued) == 16


requests = st.lists(
    st.tuples(
        st.sampled_from("abcde"),
        st.integers(0, 80),
        st.sampled_from(TYPES),
        st.sampled_from(["", "w"]),
        st.booleans(),
    ),
    max_size=40,
)


@given(requests, st.sampled_from([0.0, 0.1, 0.25, 0.5]), st.integers(0, 64))
def test_however_keepers_come_grow_and_go_a_namespace_never_gets_beyond_its_limit(
    steps: list[tuple[str, int, str, str, bool]], share: float, reserved: int
) -> None:
    """Each step is a keeper that asks for so much, or goes; it keeps what it is granted."""
    limits = {gpu_type: share_limit(share, 128, 16) for gpu_type in TYPES}
    has: dict[str, KeptAhead] = {}

    def queued(_namespace: str, _name: str) -> int:
        return reserved

    for name, gpus, gpu_type, workload, goes in steps:
        before = has.get(name)
        is_another = before and (before.gpu_type, before.workload) != (gpu_type, workload)
        if goes or is_another:
            has.pop(name, None)
            continue
        wants = AheadRequest(
            id=name, namespace="jobs", gpus=gpus, gpu_type=gpu_type, pods=gpus, workload=workload
        )
        if not excess(wants, has.values(), limits[gpu_type], queued, total=128):
            has[name] = keep(name, gpus, gpu_type, workload)
        for each, limit in limits.items():
            assert limit.allows(kept_gpus(has.values(), limit, each, queued))
    has.clear()
    for gpu_type, limit in limits.items():
        most = limit.gpus or 0
        wants = AheadRequest(id="z", namespace="jobs", gpus=most, gpu_type=gpu_type, pods=1)
        assert not excess(wants, has.values(), limit, queued, total=128), "nobody waits for ever"
