"""Objects that anything was done to pass every door, and no code behind one raises an error.

python -m tests.mutated.rounds --objects 1000000 --seed 0
"""

import asyncio
import random

import pytest

from tests.mutated.doors import open_doors
from tests.mutated.mutation import Mutation
from tests.mutated.rounds import run_round
from tests.mutated.samples import WILD, all_samples, of_the_wild
from topo.gangs.job_kinds import kinds

OTHERS = {
    ("v1", "Pod"),
    ("v1", "PodTemplate"),
    ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    ("scheduling.k8s.io/v1beta1", "PodGroup"),
    ("kueue.x-k8s.io/v1beta2", "Workload"),
    ("autoscaling.x-k8s.io/v1", "ProvisioningRequest"),
}


@pytest.mark.parametrize(
    "seed",
    [
        0,
        24,  # a PodGroup whose stamp has more pods of a group than the group has GPUs
        237,  # a request whose uid is longer than the key of a hold
        107,  # a wait of the writer that rounds to a hair before its time
        *(pytest.param(each, marks=pytest.mark.slow) for each in range(100, 140) if each != 107),
        *(pytest.param(each, marks=pytest.mark.deep) for each in range(200, 400)),
    ],
)
def test_no_mutated_object_raises_an_error_behind_any_door(seed: int) -> None:
    found = run_round(seed)
    assert not found.flaws, "\n".join(found.flaws)
    assert found.read > found.objects / 5, "the watches read too few of them to mean anything"


def test_there_is_a_sample_of_each_kind_that_is_read_here() -> None:
    found = {(each["apiVersion"], each["kind"]) for each in all_samples()}
    assert {(each.api_version, each.kind) for each in kinds.JOB_KINDS} | OTHERS <= found


@pytest.mark.skipif(not WILD.is_dir(), reason="this checkout has no objects found in the wild")
def test_objects_found_in_the_wild_are_among_the_samples() -> None:
    assert [*of_the_wild()]


def test_the_same_seed_draws_the_same_objects() -> None:
    samples = all_samples()
    one, other = (
        [Mutation(samples, random.Random(7)).draw() for _ in range(20)]  # noqa: S311
        for _ in range(2)
    )
    assert one == other


@pytest.mark.virtual_time
async def test_an_error_behind_a_watch_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nothing that is found here would mean anything."""
    async with open_doors() as doors:
        monkeypatch.setattr(doors.nomination.reader, "build", lambda _: 1 / 0)
        for each in all_samples():
            doors.bring(each)
        await asyncio.sleep(2.0)
        assert [text for text in doors.errors() if "ZeroDivisionError" in text]
