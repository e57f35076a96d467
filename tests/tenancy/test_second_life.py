"""Jobs that are scaled, stopped, started, evicted and fail in part, beside a hostile tenant."""

import pytest

from tests.support.virtual_time import in_virtual_time
from tests.tenancy.life import STEPS
from tests.tenancy.second_life import SecondLife


@pytest.mark.parametrize(
    "seed",
    [
        *range(20),
        *(pytest.param(each, marks=pytest.mark.slow) for each in range(100, 250)),
        *(pytest.param(each, marks=pytest.mark.deep) for each in range(300, 1_300)),
    ],
)
def test_a_job_runs_again_whatever_happened_to_it_and_no_group_is_split(seed: int) -> None:
    in_virtual_time(SecondLife(seed).live(STEPS))
