"""One function weighs every placement, whoever made it."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.capacity import cluster, host, take
from topo.model.ids import NodeName
from topo.placement.job.plan import Objective, Pods, Profile, first_difference
from topo.placement.job.policy import Policy
from topo.placement.job.request import Request
from topo.placement.quality.measure import leximax_key, measure


def pods(*names: str) -> Pods:
    return tuple((NodeName(name), 1) for name in names)


def numbered(domain: str, count: int) -> Pods:
    return pods(*(f"n{domain}-{n}" for n in range(1, count + 1)))


EIGHT = Request(pods=8, gpus_per_pod=8, group_size=64)


def test_every_number_of_the_vector_says_what_the_placement_changes():
    capacity = cluster((9, 8, 5), (10,), size=10)
    first = numbered("1-1", 8)
    assert measure(capacity, EIGHT, [first]) == Objective(
        split_groups=0,
        span=(1, 1),
        whole_groups_left=2,
        profile_top=((2, -1), (1, 1)),
        profile_tier1=((9, -1), (1, 1)),
        newly_broken=0,
        penalty=0,
        order=(0, 1, 2, 3, 4, 5, 6, 7),
    )


def test_a_group_over_two_domains_is_split():
    capacity = cluster((8, 8), size=8)
    split = numbered("1-1", 4) + numbered("1-2", 4)
    found = measure(capacity, EIGHT, [split])
    assert (found.split_groups, found.span, found.whole_groups_left) == (1, (1, 2), 0)
    assert found.newly_broken == 2


def test_a_domain_is_broken_when_nothing_ran_there_and_something_is_left():
    capacity = cluster((4, 4), size=4)
    request = Request(pods=3, gpus_per_pod=8)
    assert measure(capacity, request, [numbered("1-1", 3)]).newly_broken == 1
    take(capacity, "n1-1-4", 1)
    assert measure(capacity, request, [numbered("1-1", 3)]).newly_broken == 0


def test_penalties_count_once_for_each_pod():
    capacity = cluster((2,))
    capacity.upsert(host("n1-1-1", ("s1", "d1"), penalty=3))
    request = Request(pods=3, gpus_per_pod=4)
    placed = ((NodeName("n1-1-1"), 2), (NodeName("n1-1-2"), 1))
    assert measure(capacity, request, [placed]).penalty == 6


def test_where_no_domain_holds_a_canonical_group_the_largest_one_counts_instead():
    capacity = cluster((3, 2), (3,))
    request = Request(pods=1, gpus_per_pod=8)
    found = measure(capacity, request, [pods("n1-2-1")])
    assert found.whole_groups_left == 2
    assert found.profile_tier1 == ((2, -1), (1, 1))


def test_canonical_groups_may_live_above_tier_one():
    capacity = cluster((4, 4), (4,), policy=Policy(canonical_gpus=64))
    request = Request(pods=4, gpus_per_pod=8)
    found = measure(capacity, request, [numbered("2-1", 4)])
    assert (found.whole_groups_left, found.profile_top) == (1, ())
    assert found.profile_tier1 == ((4, -1), (0, 1))


def test_the_top_tier_of_a_flat_cluster_is_tier_one():
    capacity = cluster(())
    for number in range(4):
        capacity.upsert(host(f"n{number}", ("d1",)))
    found = measure(capacity, Request(pods=2, gpus_per_pod=8), [pods("n0", "n1")])
    assert (found.span, found.order) == ((1,), (0, 1))


profiles = st.dictionaries(st.integers(0, 9), st.integers(-3, 3).filter(bool), max_size=5).map(
    lambda changes: tuple(sorted(changes.items(), reverse=True))
)


@given(profiles, profiles)
def test_the_key_of_a_profile_orders_as_the_objective_does(one: Profile, other: Profile):
    def objective(profile: Profile) -> Objective:
        return Objective(0, (1,), 0, profile, (), 0, 0, ())

    parted = first_difference(objective(one), objective(other))
    mine, theirs = leximax_key(one), leximax_key(other)
    assert (parted is None) == (mine == theirs)
    assert parted is None or (parted[1] < 0) == (mine < theirs)
