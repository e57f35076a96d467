"""A hostile tenant beside others, from the objects of the API server to what masters write.

Its pods copy, mutate and invent owners, notes, stamps, ranks, sizes, labels and finalizers. No
leader ends, no gang of another namespace is split, opened without a plan, or loses its place, used
and held and free GPUs are those of each node, and a job that has room beside what others really
have gets it.

    python -m tests.tenancy.lives --of whole --lives 20000 --seed 0
"""

import pytest

from tests.support.virtual_time import in_virtual_time
from tests.tenancy.life import STEPS, ExtenderLife, SharedLife

FOUND = (8, 94, 468, 880)
"""Lives that broke a promise once, each for a reason of its own.

An unbound pod that no scheduler binds booked the node of a note that it had written itself; three
pods of one rank, of which one had such a note, ended each leader; the master kept 8 GPUs
for pods that ask for none; a scheduler bound a pod while the master placed its gang again, which
then did not count its GPUs and opened a job onto its node.
"""
FOUND_BY_EXTENDER = (468, 570)
"""The same: places of 8 GPUs were kept for pods of none; a gang kept places behind its gates and by
the extender, and each way took what the other kept for its own.
"""


@pytest.mark.parametrize(
    "seed",
    [
        *range(6),
        *FOUND,
        *(pytest.param(each, marks=pytest.mark.slow) for each in range(100, 300)),
        *(pytest.param(each, marks=pytest.mark.deep) for each in range(300, 1_300)),
    ],
)
def test_a_hostile_tenant_touches_no_gang_of_another_namespace(seed: int) -> None:
    in_virtual_time(SharedLife(seed).live(STEPS))


@pytest.mark.parametrize(
    "seed",
    [
        *range(4),
        *FOUND_BY_EXTENDER,
        *(pytest.param(each, marks=pytest.mark.slow) for each in range(100, 200)),
        *(pytest.param(each, marks=pytest.mark.deep) for each in range(200, 700)),
    ],
)
def test_a_hostile_tenant_touches_no_group_of_another_namespace_through_the_extender(
    seed: int,
) -> None:
    in_virtual_time(ExtenderLife(seed).live(STEPS))


@pytest.mark.parametrize("seed", range(2))
def test_the_judge_finds_nothing_wrong_beside_a_tenant_of_ordinary_pods(seed: int) -> None:
    """Else it would judge the load, and not the claims."""
    in_virtual_time(SharedLife(seed, is_tame=True).live(STEPS))
