"""What is free is kept by small steps, and is always what a recount from nothing would say."""

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.capacity import cluster, host, leaves, take
from topo.model.cluster import Taint
from topo.model.ids import Kind, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.capacity_view import CLASSES
from topo.placement.capacity.host import Host, is_eligible
from topo.placement.capacity.slots import BROKEN, Slots
from topo.placement.fragmentation import fragmentation
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility, Toleration

ANY = Eligibility()
WISHES = (
    ANY,
    Eligibility(selector=(("zone", "1"),)),
    Eligibility(tolerations=(Toleration(operator="Exists"),)),
    Eligibility(exclude=frozenset({NodeName("n1"), NodeName("n7")})),
)
SIZES = (1, 4, 8, 16)
_KINDS = (Kind("switchbox"), Kind("dragonfly"))


def free_of(capacity: Capacity, gpus: int = 8, wish: Eligibility = ANY) -> list[int]:
    free: list[int] = capacity.slots(wish, "A", gpus).free.tolist()
    return free


def test_slots_are_counted_by_group_in_natural_order():
    capacity = cluster((2, 10), (3,), size=10)
    assert free_of(capacity) == [2, 10, 3]
    assert free_of(capacity, 4) == [4, 20, 6]
    assert free_of(capacity, 16) == [0, 0, 0]
    order = [h.name for h in capacity.hosts()]
    assert order.index(NodeName("n1-2-9")) + 1 == order.index(NodeName("n1-2-10"))


def test_a_class_of_a_selector_or_an_exclusion_is_what_a_count_of_all_nodes_says():
    capacity = Capacity()
    for number in range(12):
        labels = (("row", str(number % 2)), ("zone", str(number % 3)))
        path = (f"s{number % 2}", f"d{number % 4}")
        capacity.upsert(host(f"n{number}", path, labels=labels, penalty=number % 2))
    take(capacity, "n4", 3)
    wishes = [
        Eligibility("A", selector, exclude=frozenset(NodeName(name) for name in exclude))
        for selector in ((), (("zone", "1"),), (("row", "0"), ("zone", "1")), (("zone", "9"),))
        for exclude in ((), ("n4", "unknown"))
    ]
    for selector in ((("zone", "1"),), (("row", "0"),)):
        capacity.slots(Eligibility("A", selector), "A", 8)  # the keys are kept from here on
    for label in ("1", "2"):
        capacity.upsert(host("n0", ("s0", "d0"), labels=(("row", "0"), ("zone", label))))
        capacity.remove(NodeName(f"n{label}"))
        capacity.upsert(host(f"m{label}", ("s0", "d0"), labels=(("zone", label),)))
        fresh = capacity.copy()
        for wish in wishes:
            found = fresh.slots(wish, "A", 4)
            free, busy, mask = [0] * 4, [0] * 4, bytearray(12)  # ids are given again
            usable = []
            for at in range(4):
                for host_id, each, unbooked in capacity.members(at):
                    busy[at] += unbooked < each.gpus
                    mask[host_id] = 2 if is_eligible(each, wish) else 1
                    if is_eligible(each, wish):
                        free[at] += unbooked // 4
                        usable.append((unbooked, each.penalty > 0))
            assert found.free.tolist() == list(found.free_list) == free
            assert found.busy.tolist() == busy
            assert found.mask[:12] == mask
            assert (found.nodes, found.total) == (len(usable), sum(free))
            assert found.free_gpus == sum(unbooked for unbooked, _ in usable)
            assert found.penalized == sum(penalized for _, penalized in usable)


def test_a_lone_node_comes_after_a_group_of_its_name_whichever_came_first():
    orders = []
    for names in (("x", "n1"), ("n1", "x")):
        capacity = Capacity()
        for name in names:
            path = ("s", "x") if name == "n1" else ("s",)
            capacity.upsert(host(name, path, tiers=(2, 1)[: len(path)], kinds=_KINDS[: len(path)]))
        orders.append([h.name for h in capacity.hosts()])
    assert orders == [["n1", "x"], ["n1", "x"]]


def test_a_node_outside_of_the_lower_groups_is_a_domain_of_its_own():
    capacity = Capacity()
    capacity.upsert(host("lone", ("s1", "d1")))
    capacity.upsert(host("under-switchbox", ("s1",), kinds=(Kind("switchbox"),), tiers=(2,)))
    capacity.upsert(host("unplaced"))
    capacity.upsert(host("root-dragonfly", ("d9",)))
    layout = capacity.layout()
    assert layout.tiers == 2
    assert free_of(capacity) == [1, 1, 1, 1]
    tops = [layout.ref(2, d) for d in range(len(layout.firsts[2]) - 1)]
    assert [(ref.kind, ref.path) for ref in tops] == [
        ("dragonfly", ("d9",)),
        ("switchbox", ("s1",)),
        ("node", ("unplaced",)),
    ]
    lows = [layout.ref(1, d).path for d in range(4)]
    assert lows == [("d9",), ("s1", "d1"), ("s1", "under-switchbox"), ("unplaced",)]


def test_more_booked_than_there_is_leaves_nothing_and_is_remembered():
    capacity = cluster((1,))
    name = NodeName("n1-1-1")
    capacity.book("a", {name: 12})
    assert (capacity.free(name), capacity.used(name), free_of(capacity)) == (0, 12, [0])
    capacity.book("a", {name: 4})
    assert (capacity.free(name), free_of(capacity, 4)) == (4, [1])
    capacity.release("a")
    assert free_of(capacity) == [1]
    assert capacity.bookings() == {}


def test_a_booking_waits_for_its_node():
    capacity = cluster((1,))
    capacity.book("early", {NodeName("late"): 8})
    assert free_of(capacity) == [1]
    capacity.upsert(host("late", ("s1", "d1")))
    assert free_of(capacity) == [1]
    capacity.release("early")
    assert free_of(capacity) == [2]


def test_the_version_grows_only_when_something_changed():
    capacity = cluster((2,))
    before = capacity.version
    capacity.upsert(host("n1-1-1", ("s1", "d1")))
    capacity.release("nobody")
    capacity.remove(NodeName("nobody"))
    assert capacity.version == before
    take(capacity, "n1-1-1")
    assert capacity.version == before + 1
    capacity.book("on-n1-1-1", {NodeName("n1-1-1"): 8})
    assert capacity.version == before + 1


def test_taints_need_a_toleration_and_prefer_no_schedule_needs_none():
    capacity = Capacity()
    hard = Taint("reserved", "x")
    capacity.upsert(host("n1", ("s1", "d1"), taints=(hard,)))
    capacity.upsert(host("n2", ("s1", "d1"), taints=(Taint("soft", "", "PreferNoSchedule"),)))
    assert free_of(capacity) == [1]
    for toleration, found in (
        (Toleration("reserved", "Equal", "x", "NoSchedule"), 2),
        (Toleration("reserved", "Equal", "y"), 1),
        (Toleration("reserved", "Exists", "", "NoExecute"), 1),
        (Toleration("", "Exists"), 2),
        (Toleration("", "Equal"), 1),
    ):
        assert free_of(capacity, 8, Eligibility(tolerations=(toleration,))) == [found]


def test_a_new_class_makes_room_by_forgetting_the_oldest():
    """What is remembered is the same object when it is asked again; no more than so many are."""
    capacity = cluster((1,))
    wishes = [Eligibility(tolerations=(Toleration(str(n)),)) for n in range(CLASSES + 1)]
    kept = [capacity.slots(wish, "A", 8) for wish in wishes]
    newest_first = list(zip(wishes, kept, strict=True))[::-1]
    remembered = [capacity.slots(wish, "A", 8) is slots for wish, slots in newest_first[:CLASSES]]
    assert all(remembered)
    wish, oldest = newest_first[-1]
    again = capacity.slots(wish, "A", 8)
    assert again is not oldest
    assert again.free.tolist() == oldest.free.tolist() == [1]


def test_a_copy_lives_its_own_life():
    capacity = cluster((2, 2), (2,))
    assert free_of(capacity) == [2, 2, 2]
    twin = capacity.copy()
    twin.upsert(host("new", ("s0", "d1")))
    twin.remove(NodeName("n1-1-1"))
    take(twin, "n2-1-1")
    assert free_of(twin) == [1, 1, 2, 1]
    assert free_of(capacity) == [2, 2, 2]
    capacity.upsert(host("other", ("s2", "d9")))
    assert free_of(capacity) == [2, 2, 2, 1]
    assert free_of(twin) == [1, 1, 2, 1]
    assert capacity.recount() == twin.recount() == ()


def test_a_recount_finds_what_was_kept_wrongly_names_the_node_and_wins():
    capacity = cluster((2,), (3,))
    slots = capacity.slots(ANY, "A", 8)
    slots.free[1] = 7
    capacity._columns.free_gpus[capacity._index.ids[NodeName("n1-1-2")]] = 5
    slots.busy[0] = 1
    found = capacity.recount()
    assert (found[0].node, found[0].counted, found[0].kept) == ("n1-1-2", 8, 5)
    assert ("n2-1-1", 3, 7) in [(d.node, d.counted, d.kept) for d in found]
    assert capacity.recount() == ()
    assert free_of(capacity) == [2, 3]


def test_the_policys_types_come_first():
    capacity = Capacity(Policy(gpu_types=("C", "B")))
    for name, gpu_type, gpus in (("a", "A10", 8), ("b", "A9", 8), ("c", "B", 8), ("d", "Z", 0)):
        capacity.upsert(host(name, gpu_type=gpu_type, gpus=gpus))
    assert capacity.gpu_types() == ("B", "A9", "A10")
    capacity.remove(NodeName("c"))
    assert capacity.gpu_types() == ("A9", "A10")


def random_host(choice: random.Random) -> Host:
    path = [f"p{choice.randint(1, 2)}", f"s{choice.randint(1, 3)}", f"d{choice.randint(1, 4)}"]
    return host(
        f"n{choice.randint(1, 30)}",
        path[choice.randint(0, 3) :],
        gpus=choice.choice((0, 4, 8, 16)),
        gpu_type=choice.choice("AAB"),
        ready=choice.random() > 0.1,
        cordoned=choice.random() < 0.1,
        labels=(("zone", choice.choice("12")),),
        taints=(Taint("t"),) if choice.random() < 0.2 else (),
        penalty=choice.choice((0, 0, 3)),
    )


def churn(capacity: Capacity, choice: random.Random) -> None:
    event = choice.random()
    name = NodeName(f"n{choice.randint(1, 30)}")
    if event < 0.4:
        capacity.upsert(random_host(choice))
    elif event < 0.5:
        capacity.remove(name)
    elif event < 0.8:
        other = NodeName(f"n{choice.randint(1, 30)}")
        capacity.book(f"job-{choice.randint(1, 9)}", {name: choice.randint(1, 9), other: 2})
    elif event < 0.85:
        many = choice.sample(range(1, 40), choice.randint(14, 30))
        gpus = {NodeName(f"n{number}"): choice.choice((1, 4, 8, 20)) for number in many}
        capacity.book(f"job-{choice.randint(1, 9)}", gpus)
    else:
        capacity.release(f"job-{choice.randint(1, 9)}")


def counted(slots: Slots) -> tuple[object, ...]:
    return (
        slots.free.tolist(),
        list(slots.free_list),
        slots.busy.tolist(),
        (slots.nodes, slots.free_gpus, slots.penalized, slots.total),
    )


@settings(max_examples=60)
@given(st.integers(0, 1 << 30), st.integers(1, 120))
def test_increments_equal_a_recount_after_any_events(seed, events):
    choice = random.Random(seed)  # noqa: S311  # seeded, no secret
    capacity = Capacity()
    for _ in range(events):
        churn(capacity, choice)
        if choice.random() < 0.3:
            capacity.slots(choice.choice(WISHES), choice.choice("AB"), choice.choice(SIZES))
            capacity.peaks(choice.choice("AB"), choice.choice(SIZES))
        if choice.random() < 0.3:
            capacity.layout()
        if choice.random() < 0.05:
            capacity.copy()
    fresh = Capacity()
    for each in sorted(capacity.hosts(), key=lambda h: h.name, reverse=True):
        fresh.upsert(each)
    for owner, booked in capacity.bookings().items():
        fresh.book(owner, booked)
    assert [h.name for h in fresh.hosts()] == [h.name for h in capacity.hosts()]
    kept_layout, new_layout = capacity.layout(), fresh.layout()
    assert kept_layout.firsts == new_layout.firsts
    assert kept_layout.of == new_layout.of
    assert kept_layout.offsets == new_layout.offsets
    for wish in WISHES:
        for gpus in SIZES:
            kept, new = capacity.slots(wish, "A", gpus), fresh.slots(wish, "A", gpus)
            assert counted(kept) == counted(new)
            assert capacity.peaks("A", gpus) == fresh.peaks("A", gpus)
            assert np.array_equal(kept.free, kept.free_list)
    assert capacity.recount() == ()
    assert capacity.gpus == sum(each.gpus for each in capacity.hosts())
    assert set(capacity.gpu_types()) == {each.gpu_type for each in capacity.hosts() if each.gpus}


def test_numbers_of_higher_tiers_follow_every_change_of_one_domain():
    choice = random.Random("rollups")  # noqa: S311  # seeded, no secret
    capacity = Capacity()
    for number in range(2_400):
        path = (f"p{number // 120}", f"s{number // 12}", f"d{number}")
        capacity.upsert(host(f"n{number}", path, gpus=choice.choice((8, 16))))
    for step in range(120):
        name = NodeName(f"n{choice.choice((0, 11, 12, 1_599, choice.randrange(2_400)))}")
        if step % 10 == 9:
            capacity.upsert(host(f"late-{step}", ("p1", "s3", f"late-{step}")))
        elif step % 7 == 1:
            near = {NodeName(f"n{choice.randrange(60)}"): 4 for _ in range(24)}
            capacity.book(f"job-{choice.randrange(20)}", near)
        elif step % 3:
            capacity.book(f"job-{choice.randrange(20)}", {name: choice.randint(1, 16)})
        else:
            capacity.release(f"job-{choice.randrange(20)}")
        slots, layout = capacity.slots(ANY, "A", choice.choice((4, 8))), capacity.layout()
        for tier in (2, 3) if step % 4 else (3,):
            bounds = list(itertools.pairwise(layout.firsts[tier]))
            sums = slots.sums.by(tier, layout).tolist()
            assert sums == [slots.free[a:b].sum() for a, b in bounds]
            most = slots.most.by(tier, layout).tolist()
            assert most == [slots.free[a:b].max() for a, b in bounds]
        tier, size = choice.choice(((1, 1), (1, 3), (2, 5), (3, 40)))
        sums, tops = layout.rolled(slots.free, tier), layout.of[3]
        firsts = layout.firsts[tier]
        expected = [0] * (len(layout.firsts[3]) - 1)
        for first, free in zip(firsts, sums.tolist(), strict=False):
            expected[tops[first]] += free // size
        groups = slots.sums.groups(tier, size, layout)
        assert groups.by_top.tolist() == expected
        assert groups.in_all == sum(expected)
        rest = choice.randrange(size)
        breaks = [free // size != (free - rest) // size for free in sums.tolist()]
        missed = [free + BROKEN * breaks[at] for at, free in enumerate(sums.tolist())]
        assert groups.missed(rest).tolist() == missed


def test_groups_that_change_their_tier_are_counted_at_the_new_one():
    capacity = Capacity()
    for at in (1, 2, 3):
        for number in (1, 2):
            capacity.upsert(host(f"n{at}-{number}", ("s1", f"d{at}")))
    assert capacity.layout().firsts[2] == [0, 3]
    capacity.upsert(host("n2-1", ("s1", "d2"), tiers=(3, 1)))
    assert capacity.layout().firsts[2] == [0, 1, 2, 3]
    capacity.upsert(host("n2-1", ("s1", "d2")))
    assert capacity.layout().firsts[2] == [0, 3]


STEPS = st.lists(
    st.tuples(
        st.integers(0, 7),
        st.sampled_from(("take", "hold", "give", "cordon", "ready", "gpus")),
        st.integers(0, 12),
    ),
    max_size=40,
)


def states_after(steps: Iterable[tuple[int, str, int]]) -> Iterator[Capacity]:
    """A capacity of eight nodes after each of some steps.

    Pods take more than there is, nodes close, and lose GPUs while pods have them.
    """
    capacity = leaves(8, 2)
    for at, (number, what, gpus) in enumerate(steps):
        node = NodeName(f"n{number}")
        found = capacity.host(node)
        assert found is not None
        if what in ("take", "hold"):
            capacity.book(f"{what}-{at}", {node: gpus})
        elif what == "give":
            capacity.release(f"take-{gpus}")
        elif what == "cordon":
            capacity.upsert(replace(found, cordoned=not found.cordoned))
        elif what == "ready":
            capacity.upsert(replace(found, ready=not found.ready))
        else:
            capacity.upsert(replace(found, gpus=gpus))
        yield capacity


@given(STEPS)
def test_the_gpus_of_every_node_add_up_whatever_is_booked(steps):
    for capacity in states_after(steps):
        usage = capacity.usage([o for o in capacity.bookings() if o.startswith("hold")], {})
        usage.validate()
        for row in usage.by_type().values():
            counted = row.free + row.used + row.held + row.cordoned + row.closed
            assert counted == row.gpus + usage.overbooked()


@given(STEPS)
def test_free_gpus_are_one_number_for_jobs_documents_metrics_and_reports(steps):
    for capacity in states_after(steps):
        usage = capacity.usage(())
        domains = range(len(capacity.layout().domains))
        members = {each.name: n for at in domains for _, each, n in capacity.members(at)}
        free = {each.name: capacity.free(each.name) for each in capacity.hosts()}
        assert members == free == {name: counts.free for name, counts in usage.counts.items()}
        for name, gpus in free.items():
            found = capacity.host(name)
            assert found is not None
            assert gpus == (capacity.unbooked(name) if found.is_open else 0)
        assert capacity.slots(ANY, "A", 1).free_gpus == sum(free.values())
        counted = {each: row.free for each, row in usage.by_type().items() if row.gpus}
        assert counted == {each.gpu_type: each.free_gpus for each in fragmentation(capacity).types}
