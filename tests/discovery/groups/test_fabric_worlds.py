"""Random fabrics with faults, and real ones, beside what is known to be true of them.

The real dumps are not part of the repository; without them their tests are skipped.
"""

import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, combinations, pairwise, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import discovery, groups, shape, together
from tests.discovery.fabrics import dumped, listed, read, reports, spoken
from tests.support.fabric import Built, Fabric, rails
from topo.discovery.modes import Mode
from topo.model.forest import Group, Node
from topo.model.observation import Event, FabricLoaded

SHARED = Path(__file__).resolve().parents[3].parent / "shared/data/fabrics/ib"


@st.composite
def faulty_fabrics(draw: st.DrawFn) -> tuple[Built, dict[str, list[str]]]:
    """Units of hosts, and the truth; one host of each has cables cut, or in a leaf of any unit.

    More than half of its cables are right, and at most a quarter of them are in a wrong leaf.
    """
    sizes = draw(st.lists(st.integers(2, 5), min_size=1, max_size=4))
    numbers = iter(range(100))
    units = {f"u{n}": [f"h{next(numbers):02}" for _ in range(size)] for n, size in enumerate(sizes)}
    width = draw(st.sampled_from((1, 2, 3, 4, 8)))
    built = rails(list(units.values()), width, draw(st.integers(1, 2)))
    faults, astray = (width - 1) // 2, width // 4
    for hosts in units.values():
        adapters = draw(st.permutations(built.adapters[draw(st.sampled_from(hosts))]))
        for number, guid in enumerate(adapters[: draw(st.integers(0, faults))]):
            built.fabric.cut(guid)
            if number < astray:
                built.fabric.plug(guid, built.leaves[draw(st.sampled_from(sorted(built.leaves)))])
    return built, units


@given(faulty_fabrics(), st.randoms(use_true_random=False))
def test_random_fabrics_with_faults_have_the_groups_of_their_units_in_any_order(
    fabric: tuple[Built, dict[str, list[str]]], rng: random.Random
) -> None:
    """No false neighbour, nobody lost; who speaks first does not matter."""
    built, units = fabric
    events: list[Event] = [listed(built.adapters), dumped(built.text()), *reports(built)]
    expected = {frozenset(hosts) for hosts in units.values()}
    shapes = []
    for _ in range(2):
        rng.shuffle(events)
        state = discovery(Mode.FABRIC)
        for at, event in enumerate(events):
            state.advance(float(at), event)
        state.validate()
        assert together(state) == expected
        shapes.append(shape(state))
    assert all(one == other for one, other in pairwise(shapes))


@dataclass(frozen=True)
class Tiers:
    """A fabric of pods of leaves, a dump of each of its planes, and the truth: hosts by kind."""

    adapters: dict[str, list[str]]
    dumps: list[str]
    truth: dict[str, set[frozenset[str]]]


SMALL = st.lists(st.integers(1, 3), min_size=1, max_size=3)
LARGE = st.lists(st.integers(1, 16), min_size=4, max_size=8)
"""Leaves by pod."""


@st.composite
def tiered_fabrics(
    draw: st.DrawFn,
    leaves: st.SearchStrategy[list[int]] = SMALL,
    sizes: tuple[int, ...] = (1, 2, 2, 3),
) -> Tiers:
    """A fat tree, a dragonfly+ (spines cabled to those of each other pod), or two planes of one.

    Cables between switches are cut at random; each leaf and each pod keeps one.
    """
    leaves_of = draw(leaves)
    planes = draw(st.sampled_from((1, 2)))
    has_cores = draw(st.booleans())
    hosts = {
        (pod, leaf): [f"h{pod}-{leaf}-{n}" for n in range(draw(st.sampled_from(sizes)))]
        for pod, leaves in enumerate(leaves_of)
        for leaf in range(leaves)
    }
    adapters: dict[str, list[str]] = {name: [] for names in hosts.values() for name in names}
    fabric = Fabric()
    for plane in range(planes):
        spines = [
            [fabric.switch(f"p{plane}-s{pod}-{n}") for n in (0, 1)] for pod in range(len(leaves_of))
        ]
        for (pod, leaf), names in hosts.items():
            switch = fabric.switch(f"p{plane}-l{pod}-{leaf}")
            for spine in spines[pod][: draw(st.sampled_from((1, 2)))]:
                fabric.trunk(switch, spine)
            for name in names:
                adapters[name].append(fabric.adapter(f"{name} mlx5_{plane}"))
                fabric.plug(adapters[name][-1], switch)
        pods = range(len(leaves_of))
        if has_cores:
            core = fabric.switch(f"p{plane}-core")
            for pod in pods:
                fabric.trunk(spines[pod][0], core)
        else:
            for one, other in combinations(pods, 2):
                for there in range(draw(st.sampled_from((1, 2)))):
                    fabric.trunk(spines[one][0], spines[other][there])
    first = next(iter(adapters.values()))
    return Tiers(adapters, [fabric.dump(each) for each in first], _truth(hosts))


def _truth(hosts: Mapping[tuple[int, int], list[str]]) -> dict[str, set[frozenset[str]]]:
    """The sets of hosts by kind; a tier that holds no more than the one below is left out."""
    pods: dict[int, list[list[str]]] = {}
    for (pod, _), names in hosts.items():
        pods.setdefault(pod, []).append(names)
    return {
        "leaf": {frozenset(names) for names in hosts.values()},
        "spine": {frozenset(chain(*leaves)) for leaves in pods.values() if len(leaves) > 1},
        "core": {frozenset(chain(*hosts.values()))} if len(pods) > 1 else set(),
    }


@given(tiered_fabrics())
def test_random_fat_trees_dragonflies_plus_and_planes_have_their_groups_of_each_tier(
    fabric: Tiers,
) -> None:
    """A dragonfly+ has no core: its pods are joined by cables between their spines."""
    _hold_to_truth(fabric)


@pytest.mark.deep
@settings(max_examples=20)
@given(tiered_fabrics(LARGE, (8, 16)))
def test_fabrics_of_a_thousand_hosts_have_their_groups_of_each_tier(fabric: Tiers) -> None:
    _hold_to_truth(fabric)


def _hold_to_truth(fabric: Tiers) -> None:
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(fabric.adapters), dumped(*fabric.dumps))
    state.validate()
    found: dict[str, set[frozenset[str]]] = {kind: set() for kind in fabric.truth}
    for group in groups(state).values():
        found[str(group.kind)].add(frozenset(_names(group)))
    assert found == fabric.truth


@pytest.mark.parametrize("lost", range(1, 9))
def test_a_spine_that_lost_cables_to_leaves_of_its_pod_accuses_none_and_splits_none(
    lost: int,
) -> None:
    """Also where most leaves of the pod have one spine left, beside those that have two."""
    fabric, adapters = Fabric(), {}
    core = fabric.switch("core")
    for pod in (0, 1):
        spines = [fabric.switch(f"s{pod}-{n}") for n in (0, 1)]
        for leaf in range(8):
            switch, host = fabric.switch(f"l{pod}-{leaf}"), f"h{pod}-{leaf}"
            adapters[host] = [fabric.adapter(f"{host} mlx5_0")]
            fabric.plug(adapters[host][0], switch)
            for spine in spines if pod or leaf >= lost else spines[:1]:
                fabric.trunk(switch, spine)
        fabric.trunk(spines[0], core)
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(adapters), dumped(fabric.dump(adapters["h0-0"][0])))
    found = {frozenset(_names(g)) for g in groups(state).values() if g.kind == "spine"}
    assert found == {frozenset(f"h{pod}-{leaf}" for leaf in range(8)) for pod in (0, 1)}
    told = {each.code for source in state.snapshot.sources for each in source.warnings}
    assert told == ({"fabric-trunks-weak"} if lost < 4 else set())


@given(
    st.lists(st.integers(3, 5), min_size=2, max_size=3),
    st.integers(3, 4),
    st.sampled_from(("core", "dragonfly+")),
    st.randoms(use_true_random=False),
)
def test_cables_that_are_swapped_between_pods_are_named_and_join_no_pods(
    leaves_of: list[int], width: int, joined_by: str, rng: random.Random
) -> None:
    """Two leaves of two pods have each other's cable to a spine."""
    fabric, adapters = Fabric(), {}
    core = fabric.switch("core")
    spines = {(pod, n): f"s{pod}-{n}" for pod in range(len(leaves_of)) for n in range(width)}
    guids = {name: fabric.switch(name) for name in spines.values()}
    here, there = rng.sample(range(len(leaves_of)), 2)
    swapped = {
        (here, rng.randrange(leaves_of[here])): (rng.randrange(width), there),
        (there, rng.randrange(leaves_of[there])): (rng.randrange(width), here),
    }
    wrong, pods = set(), []
    for pod, leaves in enumerate(leaves_of):
        pods.append(frozenset(f"h{pod}{leaf}{n}" for leaf in range(leaves) for n in (0, 1)))
        for leaf in range(leaves):
            switch = fabric.switch(name := f"l{pod}-{leaf}")
            for host in (f"h{pod}{leaf}{n}" for n in (0, 1)):
                adapters[host] = [fabric.adapter(f"{host} mlx5_0")]
                fabric.plug(adapters[host][0], switch)
            at, other = swapped.get((pod, leaf), (-1, pod))
            for n in range(width):
                spine = spines[other if n == at else pod, n]
                fabric.trunk(switch, guids[spine])
                if n == at:
                    wrong.add(f"{name} to {spine}")
    for pod in range(len(leaves_of)):
        far = core if joined_by == "core" else guids[spines[(pod + 1) % len(leaves_of), 0]]
        fabric.trunk(guids[spines[pod, 0]], far)
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(adapters), dumped(fabric.dump(adapters["h000"][0])))
    found = {frozenset(_names(g)) for g in groups(state).values() if g.kind == "spine"}
    assert found == set(pods)
    (doubt,) = [each.text for source in state.snapshot.sources for each in source.warnings]
    assert set(re.split(r", | and ", doubt.partition(": ")[2])) == wrong


@pytest.mark.parametrize(("wrong", "cut"), [(w, c) for w in range(5) for c in range(4 - w)])
def test_a_leaf_that_may_as_well_be_in_another_pod_is_named(wrong: int, cut: int) -> None:
    """Of four cables of a leaf some are exchanged with those of leaves elsewhere, some are cut."""
    fabric, adapters = Fabric(), {}
    core = fabric.switch("core")
    spines = [[fabric.switch(f"s{pod}-{n}") for n in range(4)] for pod in (0, 1)]
    for one in (each for pod in spines for each in pod):
        fabric.trunk(one, core)
    for pod, leaf in product((0, 1), range(8)):
        switch = fabric.switch(f"l{pod}-{leaf}")
        for host in (f"h{pod}-{leaf}-{n}" for n in (0, 1)):
            adapters[host] = [fabric.adapter(f"{host} mlx5_0")]
            fabric.plug(adapters[host][0], switch)
        for n in range(4):
            is_moved = n < wrong and leaf == (0, n + 2)[pod]
            if pod or leaf or n < 4 - cut:
                fabric.trunk(switch, spines[1 - pod if is_moved else pod][n])
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(adapters), dumped(fabric.dump(adapters["h1-0-0"][0])))
    right = 4 - wrong - cut
    pods = [_names(each) for each in groups(state).values() if each.kind == "spine"]
    own = [pod for pod in pods if "h0-0-0" in pod]
    assert [("h0-1-0" in pod, "h1-1-0" in pod) for pod in own] == (
        [] if right == wrong else [(right > wrong, right < wrong)]
    )
    texts = [each.text for source in state.snapshot.sources for each in source.warnings]
    unsure = {leaf for text in texts for leaf in re.findall(r"(l\d-\d) has \d of", text)}
    fewer, more = sorted((wrong, right))
    assert unsure == ({"l0-0"} if fewer and fewer + cut >= more else set())
    assert any("l0-0 to s" in text for text in texts) == bool(fewer)


def _names(group: Group) -> set[str]:
    """The nodes below."""
    return {str(each.name) for _, each in group.walk() if isinstance(each, Node)}


def shared(name: str) -> str:
    """A real dump."""
    path = SHARED / f"{name}.ibnetdiscover.out"
    if not path.is_file():
        pytest.skip(f"{name} is not there")
    return path.read_text()


def numbered(first: int, last: int) -> frozenset[str]:
    """The hosts gpu-01, gpu-02, …"""
    return frozenset(f"gpu-{number:02}" for number in range(first, last + 1))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("single-leaf", [(1, 4)]),
        ("rail-2su", [(1, 8), (9, 16)]),
        ("host-per-leaf", [(1, 8), (9, 16), (17, 24), (25, 32)]),
        ("planned", [(1, 8), (9, 12), (13, 16)]),
    ],
)
def test_a_real_dump_gives_the_groups_that_its_index_says(
    name: str, expected: list[tuple[int, int]]
) -> None:
    state = discovery(Mode.FABRIC)
    hosts = sorted(numbered(1, expected[-1][1]))
    state.advance(0.0, listed(hosts), dumped(shared(name)))
    assert together(state) == {numbered(*each) for each in expected}
    assert len(groups(state)) == len(expected) + (len(expected) > 1)


def test_a_real_broken_fabric_gives_the_groups_of_its_truth() -> None:
    """Both dumps, and the GUIDs as workers report them: no host is lost, none among strangers."""
    found = json.loads((SHARED / "broken.truth.json").read_text()) if SHARED.is_dir() else {}
    state = discovery(Mode.FABRIC)
    loaded: FabricLoaded = dumped(shared("broken"), shared("broken-orphan"))
    workers = [
        spoken(host, [guid.removeprefix("0x") for guid in guids])
        for host, guids in found["guid_to_node"].items()
        if host.startswith("gpu")
    ]
    state.advance(0.0, loaded, *workers)
    state.validate()
    assert together(state) == {numbered(1, 8), numbered(9, 12), numbered(13, 16)}
    listed_now = state.snapshot.forest.conflicts
    slow = {each.subjects[0] for each in listed_now if each.code == "fabric-cable-slow"}
    assert slow == {"gpu-02", "gpu-04"}


def test_a_real_fabric_of_a_superpod_has_no_group_of_two_units() -> None:
    """Its leaves are called after rail and unit: the names are the truth, and are not used."""
    dump = read(shared("real-dgx-superpod.switch-blocks"))
    hosts = {each.description.split()[0] for each in dump.adapters if "dgx" in each.description}
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(hosts), FabricLoaded((("a", dump),)))
    state.validate()
    units = {frozenset(name.split("-")[3] for name in group) for group in together(state)}
    assert all(len(unit) == 1 for unit in units)
    assert len(units) == len(together(state)) == 8
