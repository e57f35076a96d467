"""Whose pods may take shares of a hold that they name follows from its own request alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.gangs.extender.needs import HeldRanks
from topo.gangs.hold_claims import Claimant, describe_claimants, gang_key, gang_of_hold, may_take
from topo.gangs.machine.gang import GangId
from topo.model.limits import OWN_KEYS
from topo.placement.booking.holds import Hold, HoldId, HoldRequest
from topo.placement.job.request import PlacementMode, Request

GANG, OTHER = GangId("gang-a"), GangId("gang-b")
GANGS_HOLD = gang_key(GANG, HoldId("hold-1"))
OF_RANKS = HeldRanks(GANG, (2, 3)).key


def hold(key: str | None, namespace: str = "") -> Hold:
    return Hold(
        id=HoldId("hold-1"),
        wish=HoldRequest(Request(pods=1, gpus_per_pod=8), 60, key, namespace),
        mode=PlacementMode.REQUIRED,
        gpu_type="",
        groups=(),
        generation=1,
        created_s=0,
        deadline_s=60,
    )


def pod(namespace: str = "team-a", gang: GangId = GANG, rank: int | None = 2) -> Claimant:
    return Claimant(namespace=namespace, gang=gang, rank=rank)


@pytest.mark.parametrize("key", [None, "train-7", "gangs/1/2", "a/gang/b"])
def test_a_clients_hold_is_for_the_pods_of_the_namespace_that_it_names(key: str | None) -> None:
    assert may_take(hold(key, "team-a"), pod(gang=OTHER, rank=None))
    assert not may_take(hold(key, "team-a"), pod("team-b"))
    assert not may_take(hold(key), pod())
    assert not may_take(hold(key), pod("")), "no namespace is not the same as none"


def test_a_gangs_hold_is_for_the_pods_of_that_gang() -> None:
    assert gang_of_hold(hold(GANGS_HOLD)) == GANG
    assert may_take(hold(GANGS_HOLD), pod(rank=7))
    assert not may_take(hold(GANGS_HOLD), pod(gang=OTHER))


def test_an_extenders_hold_is_for_the_pods_of_that_gang_at_its_ranks() -> None:
    assert [may_take(hold(OF_RANKS), pod(rank=rank)) for rank in range(5)] == [
        *(False, False, True, True, False)
    ]
    assert not may_take(hold(OF_RANKS), pod(rank=None))
    assert not may_take(hold(OF_RANKS), pod(gang=OTHER))


@given(
    prefix=st.sampled_from(OWN_KEYS),
    rest=st.text(max_size=40),
    namespace=st.sampled_from(["", "team-a"]),
)
def test_what_a_master_made_is_for_nobody_unless_its_key_names_the_gang(
    prefix: str, rest: str, namespace: str
) -> None:
    """Whatever stands behind the prefix, and also where a namespace is named."""
    found = hold(prefix + rest, namespace)
    assert not may_take(found, pod(gang=GangId("of nobody\0")))
    assert describe_claimants(found)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (hold(None, "team-a"), "for pods of namespace team-a"),
        (hold("train-7"), "for pods of none"),
        (hold(GANGS_HOLD), "for the pods of another gang"),
        (hold(OF_RANKS), "for pods of other ranks or of another gang"),
        (hold("workload/uid/team-a/train"), "for pods that consume its request"),
    ],
)
def test_a_refusal_says_for_whom_the_hold_is(found: Hold, words: str) -> None:
    assert describe_claimants(found) == words
