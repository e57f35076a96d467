"""Cables that are missing or slow are named by those beside them, without a plan."""

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import discovery
from tests.discovery.fabrics import dumped, listed, reports
from tests.support.fabric import Built, rails
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery

REAL = Path(__file__).resolve().parents[3].parent / (
    "shared/data/fabrics/ib/real-dgx-superpod.switch-blocks.ibnetdiscover.out"
)
HOSTS = [f"h{number:02}" for number in range(12)]


def weak(state: Discovery) -> str:
    """What is told of the cables between switches."""
    told = (each for source in state.snapshot.sources for each in source.warnings)
    return "; ".join(each.text for each in told if each.code == "fabric-trunks-weak")


def known(built: Built) -> Discovery:
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(built.adapters), dumped(built.text()))
    return state


def doubled() -> tuple[Built, dict[str, list[int]]]:
    """Two units of three rails, each leaf with two cables to each of two spines; these by leaf."""
    built = rails([HOSTS[:6], HOSTS[6:]], 3, 2)
    fabric = built.fabric
    spines = [guid for guid, device in fabric.devices.items() if "spine" in device.description]
    ups = {}
    for name, leaf in built.leaves.items():
        for spine in spines:
            fabric.trunk(leaf, spine)
        ends = fabric.ends.items()
        ups[name] = [port for (one, port), (far, _, _) in ends if one == leaf and far in spines]
    return built, ups


@given(
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_leaves_with_fewer_uplinks_and_slow_cables_between_switches_are_named(
    cut: list[int], slow: list[bool]
) -> None:
    """Where most leaves lack as many, nothing is usual, or the lower number is."""
    built, ups = doubled()
    left, slowed = dict[str, int](), set[str]()
    for (name, ports), number, is_slow in zip(ups.items(), cut, slow, strict=True):
        for port in ports[:number]:
            built.fabric.cut(built.leaves[name], port)
        left[name] = len(ports) - number
        if is_slow and left[name] > 2:
            end = built.leaves[name], ports[-1]
            far, far_port, _ = built.fabric.ends[end]
            built.fabric.cable(end, (far, far_port), "4xHDR")
            slowed.add(name)
    most = [value for value, number in Counter(left.values()).items() if number > len(left) / 2]
    short = {name for name, number in left.items() if most and number < most[0]}
    told = weak(known(built))
    assert set(re.findall(r"(\S+) has \d cables? to switches above", told)) == short
    assert set(re.findall(r"to (ib-su\d-leaf-\d\d) port \d+ runs at 4xHDR", told)) == slowed


@given(st.sets(st.tuples(st.integers(0, 11), st.integers(0, 2)), max_size=8))
def test_adapters_that_never_had_a_cable_are_named_and_unused_ones_are_not(
    out: set[tuple[int, int]],
) -> None:
    """Each host has a fourth adapter that nobody ever cabled."""
    built = rails([HOSTS[:6], HOSTS[6:]], 3, 2)
    for host in HOSTS:
        built.adapters[host].append(built.fabric.adapter(f"{host} mlx5_3"))
    left = {host: {0, 1, 2} - {rail for at, rail in out if HOSTS[at] == host} for host in HOSTS}
    for at, rail in out:
        built.fabric.cut(built.adapters[HOSTS[at]][rail])
    state = discovery(Mode.FABRIC)
    text = next(built.text(host) for host in HOSTS if left[host])
    state.advance(0.0, listed(HOSTS), dumped(text), *reports(built))
    state.validate()
    expected: dict[str, set[int]] = {}
    for unit in (HOSTS[:6], HOSTS[6:]):
        here = [host for host in unit if left[host]]  # the others are in no dump
        counts = Counter(len(left[host]) for host in here)
        most = [number for number, of in counts.items() if of >= 3 and 2 * of > len(here)]
        for host in here if most else ():
            if len(left[host]) >= most[0]:
                continue
            has = {rail: sum(rail in left[other] for other in here) for rail in range(3)}
            gone = {r for r in range(3) if r not in left[host] and 2 * has[r] > len(here)}
            expected |= {host: gone} if gone else {}
    told = [c for c in state.snapshot.forest.conflicts if c.code == "fabric-cable-missing"]
    found = {each.subjects[0]: {*map(int, re.findall(r"mlx5_(\d)", each.text))} for each in told}
    assert found == expected


def test_a_port_that_fell_and_left_the_next_dump_is_told_once() -> None:
    built = rails([HOSTS[:6], HOSTS[6:]], 3, 2)
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(HOSTS), dumped(built.text()), *reports(built))
    built.fabric.cut(built.adapters["h03"][1])
    state.advance(1.0, dumped(built.text()))
    state.validate()
    assert state.snapshot.forest.conflicts == ()


def test_a_leaf_that_has_its_cables_again_is_told_no_more() -> None:
    built, ups = doubled()
    whole = built.text()
    built.fabric.cut(built.leaves["ib-su1-leaf-02"], ups["ib-su1-leaf-02"][0])
    state = known(built)
    assert weak(state) == "ib-su1-leaf-02 has 3 cables to switches above, most beside it 4"
    state.advance(1.0, dumped(whole))
    assert weak(state) == ""


@pytest.mark.skipif(not REAL.exists(), reason="no real dumps here")
def test_the_dead_uplinks_of_a_real_superpod_are_those_that_its_blocks_lack() -> None:
    """Counted from the text: 18 cables of each leaf to spines are planned."""
    text = REAL.read_text()
    counts = {
        match[1]: len(re.findall(r"^\[\d+\]\s+\"S-", block, re.MULTILINE))
        for block in text.split("\n\n")
        if (match := re.search(r"^Switch.*(IBLEAF-\d\d-\d\d)", block, re.MULTILINE))
    }
    hosts = sorted(set(re.findall(r'# "([\w.-]+) (?:HCA-|mlx5_)\d', text)))
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(hosts), dumped(text))
    short = {leaf: count for leaf, count in counts.items() if count < 18}
    told = weak(state)
    assert len(short) == 12
    for leaf, count in short.items():
        assert f"{leaf} has {count} cables" in told
