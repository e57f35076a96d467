"""Random fabrics with faults, and real ones, beside what is known to be true of them.

The real dumps are not part of the repository; without them their tests are skipped.
"""

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import discovery, groups, shape, together
from tests.discovery.fabrics import dumped, listed, read, reports, spoken
from tests.support.fabric import Built, rails
from topo.discovery.modes import Mode
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
