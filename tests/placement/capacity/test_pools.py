"""Pools by use, and nodes whose cards are shared: who gets which nodes, and what is counted how."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.placement.oracle.model import _eligible as judged_by_the_oracle
from tests.support.capacity import host, shares
from topo.model.cluster import ClusterNode, Taint
from topo.model.ids import NodeName
from topo.placement.advice.explain import explain
from topo.placement.advice.other_requests import several_changes
from topo.placement.advice.refusal_reasons import reasons
from topo.placement.advice.suggestions import largest_possible_pods
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.events import Pod, PodGone, PodPhase, PodSeen
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import Host, hosts_of_unknown_size, is_eligible, joined
from topo.placement.capacity.node_usage import SharedCards
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Plan
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility, PlacementMode, Request, Toleration

KEY = "metax-tech.com/node.usage"
SGPU = "metax-tech.com/sgpu"
POLICY = Policy()


def stated(name: str, pool: str = "", taints: tuple[Taint, ...] = (), **more: object) -> Host:
    """A node of a dragonfly as the cluster completes it; by default with eight whole GPUs."""
    top, inner, _ = name.removeprefix("n").split("-")
    values: dict[str, object] = {"allocatable": (("metax-tech.com/gpu", 8),)} | more
    cluster = ClusterNode(name=NodeName(name), pool=pool, taints=taints, **values)  # type: ignore[arg-type]
    made = joined(host(name, (f"s{top}", f"d{inner}")), cluster, POLICY)
    assert made is not None
    return made


def dragonflies(*pools: str) -> Capacity:
    """A switchbox with a dragonfly of two nodes for each pool."""
    capacity = Capacity(POLICY)
    for at, pool in enumerate(pools, start=1):
        for number in (1, 2):
            taint = (Taint(KEY, pool),) if pool else ()
            capacity.upsert(stated(f"n1-{at}-{number}", pool, taint))
    return capacity


BORNE = (Toleration(KEY, "Exists"),)
"""As the pods of a job with a usage have it."""


def pair(usage: str) -> Request:
    """A job of one dragonfly."""
    wish = Eligibility(usage=usage, tolerations=BORNE)
    return Request(pods=2, gpus_per_pod=8, group_size=16, eligible=wish)


@pytest.mark.parametrize(
    ("usage", "pool", "fits"),
    [
        ("training", "training", True),
        ("training", "hybrid", True),
        ("training", "", True),
        ("training", "inference", False),
        ("training", "lab", False),
        ("inference", "inference", True),
        ("inference", "hybrid", True),
        ("inference", "training", False),
        ("", "training", True),
    ],
)
def test_a_job_fits_its_own_pool_the_hybrid_one_and_none(
    usage: str,
    pool: str,
    *,
    fits: bool,
) -> None:
    labelled = stated("n1-1-1", pool)
    assert is_eligible(labelled, Eligibility(usage=usage)) is fits


def test_a_taint_of_the_pool_or_the_product_keeps_out_whose_pods_do_not_tolerate_it() -> None:
    """As the scheduler does with such a pod."""
    tainted = stated("n1-1-1", "training", (Taint(KEY, "training"),))
    for usage in ("", "training"):
        assert not is_eligible(tainted, Eligibility(usage=usage))
        assert is_eligible(tainted, Eligibility(usage=usage, tolerations=BORNE))
    product = Taint("metax-tech.com/c500.product", "C500")
    other = replace(tainted, taints=(*tainted.taints, product))
    assert not is_eligible(other, Eligibility(usage="training", tolerations=BORNE))
    both = (*BORNE, Toleration(product.key, "Exists"))
    assert is_eligible(other, Eligibility(usage="training", tolerations=both))


def test_a_training_job_prefers_its_pool_takes_the_hybrid_one_then_and_inference_never() -> None:
    capacity = dragonflies("inference", "hybrid", "training")
    best = place(capacity, pair("training"))
    assert isinstance(best, Plan)
    assert shares(best) == {"1/3": 2}
    aside = "; hybrid nodes were left aside, since it fits on the others."
    assert explain(capacity, best)[-1].endswith(aside)
    capacity.book("other", {NodeName("n1-3-1"): 8})
    second = place(capacity, pair("training"))
    assert isinstance(second, Plan)
    assert shares(second) == {"1/2": 2}
    assert explain(capacity, second)[-1].endswith("; without hybrid nodes its groups do not fit.")
    capacity.book("more", {NodeName("n1-2-1"): 8})
    refused = place(capacity, pair("training"))
    assert isinstance(refused, NoFit)
    said = "Free, and not for a training job: 16 in the pool 'inference'."
    assert said in reasons(capacity, refused)
    change = several_changes(capacity, pair("training"))
    assert change is None or "1-1" not in change.text


def test_a_hybrid_node_is_not_taken_though_it_would_leave_larger_groups() -> None:
    """One pod would fill what is left of the hybrid dragonfly, and breaks its own one instead."""
    capacity = dragonflies("hybrid", "training")
    capacity.book("other", {NodeName("n1-1-1"): 8})
    one = replace(pair("training"), pods=1, group_size=8)
    for fits in ("1/2", "1/2", "1/1"):
        found = place(capacity, one)
        assert isinstance(found, Plan)
        assert shares(found) == {fits: 1}
        ((node, _),) = found.groups[0].pods
        capacity.book(f"pod on {node}", {node: 8})


def test_a_group_is_rather_whole_on_hybrid_nodes_than_split_on_its_own() -> None:
    capacity = dragonflies("hybrid", "training", "training")
    capacity.book("others", {NodeName("n1-2-1"): 8, NodeName("n1-3-1"): 8})
    preferred = replace(pair("training"), mode=PlacementMode.PREFERRED)
    whole = place(capacity, preferred)
    assert isinstance(whole, Plan)
    assert shares(whole) == {"1/1": 2}
    capacity.book("more", {NodeName("n1-1-1"): 8})
    split = place(capacity, preferred)
    assert isinstance(split, Plan)
    assert shares(split) == {"1/2": 1, "1/3": 1}


POOLS = st.lists(st.sampled_from(["training", "inference", "hybrid", ""]), min_size=1, max_size=6)
TAKEN = st.sets(st.tuples(st.integers(1, 6), st.integers(1, 2)), max_size=8)


@given(POOLS, TAKEN, st.integers(1, 3))
def test_hybrid_nodes_are_taken_only_by_a_job_that_its_other_nodes_have_no_room_for(
    pools: list[str], taken: set[tuple[int, int]], pairs: int
) -> None:
    """Counted pair by pair: a group of two nodes needs a dragonfly of which nothing is taken."""
    capacity = dragonflies(*pools)
    busy = {NodeName(f"n1-{fly}-{node}"): 8 for fly, node in taken if fly <= len(pools)}
    capacity.book("others", busy)
    of = [
        pool
        for fly, pool in enumerate(pools, start=1)
        if not {(fly, 1), (fly, 2)} & taken
    ]  # fmt: skip
    own, hybrid = of.count("training") + of.count(""), of.count("hybrid")
    found = place(capacity, replace(pair("training"), pods=2 * pairs))
    if own + hybrid < pairs:
        assert isinstance(found, NoFit)
        return
    assert isinstance(found, Plan)
    used = [pools[int(domain.split("/")[1]) - 1] for domain in shares(found)]
    assert "inference" not in used
    assert ("hybrid" in used) == (own < pairs)


def test_a_job_without_nodes_of_its_usage_is_told_how_many_there_are() -> None:
    capacity = dragonflies("inference", "inference")
    refused = place(capacity, pair("training"))
    assert isinstance(refused, NoFit)
    assert refused.failed == "label"
    assert any("0 are for training" in sentence for sentence in reasons(capacity, refused))


GUARDED = st.builds(
    stated,
    st.just("n1-1-1"),
    st.sampled_from(["", "training", "inference", "hybrid", "lab"]),
    st.lists(
        st.sampled_from(
            [Taint(KEY, "training"), Taint(KEY, "hybrid", "PreferNoSchedule"), Taint("team", "a")]
        ),
        max_size=2,
    ).map(tuple),
)
WISHES = st.builds(
    Eligibility,
    tolerations=st.sampled_from(
        [(), (Toleration(KEY, "Exists"),), (Toleration("team", "Exists"),)]
    ),
    usage=st.sampled_from(["", "training", "inference"]),
)


@given(st.lists(GUARDED, min_size=1, max_size=6), WISHES)
def test_counting_by_kinds_of_guards_is_counting_each_node(hosts: list[Host], wish: Eligibility):
    """The oracle's own rule on each node, beside one look at each kind of guards."""
    capacity, expected = Capacity(POLICY), 0
    for number, each in enumerate(hosts):
        capacity.upsert(replace(each, name=NodeName(f"n1-1-{number}")))
        expected += judged_by_the_oracle(each, wish)
    slots = capacity.slots(wish, "A", 8)
    assert (slots.total, slots.nodes) == (expected, expected)
    assert capacity.recount() == ()


def test_a_node_that_shares_its_cards_has_no_whole_gpu_and_is_counted_in_its_own_unit() -> None:
    """Of no size unknown either: the cluster says what it has."""
    capacity = Capacity(POLICY)
    shared = stated("n1-1-1", shared=((SGPU, 32),))
    capacity.upsert(shared)
    capacity.upsert(stated("n1-1-2"))
    assert (shared.gpus, capacity.free(shared.name)) == (0, 0)
    one = Request(pods=1, gpus_per_pod=8)
    assert isinstance(place(capacity, one), Plan)
    two = Request(pods=2, gpus_per_pod=8)
    refused = place(capacity, two)
    assert isinstance(refused, NoFit)
    assert any(f"hand out parts of their cards ({SGPU})" in s for s in reasons(capacity, refused))
    assert list(hosts_of_unknown_size(capacity.hosts(), Eligibility())) == []
    assert largest_possible_pods(capacity, two) == 1
    assert capacity.usage(()).shared == {"n1-1-1": (SharedCards(SGPU, 32, 0),)}
    version = capacity.version
    capacity.upsert(stated("n1-1-1", shared=((SGPU, 16),)))
    assert capacity.version > version, "readers are told"


def test_what_pods_take_of_shared_cards_is_counted_apart_from_whole_gpus() -> None:
    capacity = Capacity(POLICY)
    capacity.upsert(stated("n1-1-1", shared=((SGPU, 32),)))
    bookings = Bookings(capacity)

    def seen(uid: str, number: int, phase: PodPhase = PodPhase.BOUND) -> PodSeen:
        node, cards = NodeName("n1-1-1"), ((SGPU, number),)
        pod = Pod(uid=uid, namespace="x", name=uid, node=node, gpus=0, shared=cards)
        return PodSeen(pod, phase)

    version = capacity.version
    bookings.advance(0, seen("a", 3), seen("b", 4), seen("b", 4, PodPhase.TERMINATING))
    assert capacity.version > version, "readers are told"
    usage = capacity.usage((), bookings.shared_used())
    assert usage.shared == {"n1-1-1": (SharedCards(SGPU, 32, 7),)}
    assert usage.shared_by_resource() == {SGPU: SharedCards(SGPU, 32, 7)}
    assert usage.counts[NodeName("n1-1-1")].used == 0
    bookings.advance(1, PodGone("a"))
    bookings.validate()
    assert bookings.shared_used() == {"n1-1-1": ((SGPU, 4),)}
    bookings.advance(2, PodGone("b"))
    assert bookings.shared_used() == {}
