"""Pools by use, and nodes whose cards are shared: who gets which nodes, and what is counted how."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.placement.oracle.model import _eligible as judged_by_the_oracle
from tests.support.capacity import host, shares
from topo.model.cluster import ClusterNode, Taint
from topo.model.ids import NodeName
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
from topo.placement.job.request import Eligibility, Request, Toleration

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


def pair(usage: str) -> Request:
    """A job of one dragonfly."""
    return Request(pods=2, gpus_per_pod=8, group_size=16, eligible=Eligibility(usage=usage))


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


def test_a_taint_of_the_pool_keeps_out_who_does_not_say_what_the_job_is_or_tolerate_it() -> None:
    """As the scheduler does with such a pod; a job with a usage has pods that tolerate it."""
    tainted = stated("n1-1-1", "training", (Taint(KEY, "training"),))
    assert not is_eligible(tainted, Eligibility())
    assert is_eligible(tainted, Eligibility(usage="training"))
    assert is_eligible(tainted, Eligibility(tolerations=(Toleration(KEY, "Exists"),)))
    other = replace(tainted, taints=(Taint("team"),))
    assert not is_eligible(other, Eligibility(usage="training")), "other taints count as ever"


def test_a_training_job_prefers_its_pool_takes_the_hybrid_one_then_and_inference_never() -> None:
    capacity = dragonflies("inference", "hybrid", "training")
    best = place(capacity, pair("training"))
    assert isinstance(best, Plan)
    assert shares(best) == {"1/3": 2}
    capacity.book("other", {NodeName("n1-3-1"): 8})
    second = place(capacity, pair("training"))
    assert isinstance(second, Plan)
    assert shares(second) == {"1/2": 2}
    capacity.book("more", {NodeName("n1-2-1"): 8})
    refused = place(capacity, pair("training"))
    assert isinstance(refused, NoFit)
    change = several_changes(capacity, pair("training"))
    assert change is None or "1-1" not in change.text


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
