"""Dumps of InfiniBand fabrics: every cable once, and never less than there is without a word.

The real outputs are not part of the repository; without them their tests are skipped.
"""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parse.answers import items, refused, understood
from tests.support.fabric import MADE, Built, pairs, rails
from topo.facts import parse
from topo.facts.infiniband import ibnetdiscover
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump, gbps, normalized_guid

SHARED = Path(__file__).resolve().parents[2].parent / "shared/data/fabrics"
COUNTS = {
    "ib/single-leaf.ibnetdiscover.out": (1, 32, 32),
    "ib/rail-2su.ibnetdiscover.out": (12, 128, 256),
    "ib/host-per-leaf.ibnetdiscover.out": (6, 256, 384),
    "ib/planned.ibnetdiscover.out": (6, 34, 50),
    "ib/planned.ibnetdiscover-g.out": (6, 34, 50),
    "ib/broken.ibnetdiscover.out": (5, 25, 36),
    "ib/broken-orphan.ibnetdiscover.out": (1, 8, 8),
    "ib/real-dgx-superpod.switch-blocks.ibnetdiscover.out": (40, 542, 1074),
    "plans/ibdm.found.ibnetdiscover.out": (3, 6, 9),
    "plans/ibdm.planned.ibnetdiscover.out": (3, 6, 10),
}
"""Switches, adapters and cables without aggregation nodes, as the index of the folder has them."""


def dump_of(text: str) -> FabricDump:
    """The fabric of a text that is read."""
    (found,) = [fact for fact in understood(text).facts if isinstance(fact, FabricDump)]
    return found


def cables_of(built: Built) -> set[frozenset[tuple[str, int]]]:
    """The cables of the model, without those to aggregation nodes."""
    devices = built.fabric.devices
    inside = {g for g, each in devices.items() if not each.is_switch and each.system}
    return {
        frozenset((one, (far, port)))
        for one, (far, port, _) in built.fabric.ends.items()
        if one[0] not in inside and far not in inside
    }


@pytest.mark.parametrize(
    "built", [pairs(4), rails([["a", "b"], ["c", "d"]], 4, 2)], ids=["pairs", "rails"]
)
def test_each_switch_adapter_and_cable_is_read_once_and_no_aggregation_node(built: Built) -> None:
    found = dump_of(built.text())
    assert not understood(built.text()).warnings
    assert not found.missing
    assert {frozenset(map(tuple, cable[:2])) for cable in found.cables} == cables_of(built)
    hosts = {guid for adapters in built.adapters.values() for guid in adapters}
    assert {each.guid for each in found.adapters} == hosts
    assert {each.name for each in found.switches} >= set(built.leaves)


def test_the_speed_of_a_cable_is_that_of_its_slower_end() -> None:
    built = pairs(1)
    text = built.text().replace('[2]\t"H', '[2]\t"H', 1)
    slow = text.replace("4xNDR", "4xHDR", 1)
    assert {cable.rate for cable in dump_of(slow).cables} == {"4xNDR", "4xHDR"}
    assert [gbps(rate) for rate in ("4xNDR", "2xNDR", "4xHDR", "4x?")] == [425.2, 212.6, 212.4, 0]


def test_a_dump_without_blocks_of_adapters_has_their_cables_and_tells_what_is_missing() -> None:
    built = rails([["a", "b"]], 2)
    whole = dump_of(built.text())
    begin = built.text().index("caguid")
    head = built.text()[: built.text().rindex("vendid", 0, begin)]
    assert dump_of(head).missing == "7 adapters named without a block"
    assert dump_of(head).cables == whole.cables
    assert dump_of(head).adapters == whole.adapters


def test_a_dump_that_is_cut_off_is_told_or_refused_and_never_a_smaller_fabric() -> None:
    """At every line and at a character in each."""
    built = rails([["a", "b"], ["c"]], 2)
    text, rng = built.text(), random.Random(1)  # noqa: S311 - the same cuts each time
    whole = dump_of(text)
    ends = [at for at, character in enumerate(text) if character == "\n"]
    for end in (*ends[:-1], *(end - rng.randint(1, 9) for end in ends[6:])):
        found = parse(text[:end], ibnetdiscover.FORMAT)
        if isinstance(found, Refusal):
            continue
        dump = next(fact for fact in found.facts if isinstance(fact, FabricDump))
        assert dump.missing or (dump.cables, dump.adapters) == (whole.cables, whole.adapters), end


def test_a_text_that_ends_within_a_line_is_called_cut_off_and_a_folded_one_is_not() -> None:
    text = rails([["a", "b"], ["c"]], 2).text()
    for line in ("\nCa", "\n[2]", "\nSwitch", "\nvendid"):
        cut = text[: text.rindex(line) + 6]
        found = refused(cut)
        assert "ends in the middle of this line" in found.what, line
        assert found.where == f"line {cut.count(chr(10)) + 1}"
        assert "when it is whole" in found.fix
    assert "as it prints them" in refused(text.replace(" lid 7", "\n lid 7", 1)).fix


def test_blocks_that_stand_twice_alike_are_read_once_with_a_warning() -> None:
    text = pairs(2).text()
    once, twice = dump_of(text), understood(text + text)
    assert [fact for fact in twice.facts if isinstance(fact, FabricDump)] == [once]
    assert "stand twice" in twice.warnings[0]


def test_two_dumps_that_differ_in_one_text_are_refused_with_the_line() -> None:
    built = pairs(2)
    before = built.text()
    built.fabric.cut(built.adapters["gpu-04"][0])
    again = refused(before + built.text())
    assert "another block in line" in again.what
    assert "a file of its own" in again.fix


def test_a_port_with_two_far_ends_is_refused_with_the_line_of_its_device() -> None:
    text = pairs(2).text()
    block, port = text.index("\nSwitch") + 1, text.index("\n[1]") + 1
    line = text[port : text.index("\n", port) + 1]
    other = line.replace('"[1]', '"[2]')
    found = refused(text[:port] + other + text[port:])
    assert "port 1 of" in found.what
    assert "two far ends" in found.what
    assert found.where == f"line {text.count(chr(10), 0, block) + 1}"
    assert understood(text[:port] + line + text[port:]).facts == understood(text).facts


@pytest.mark.parametrize(
    "line", ["[1] nothing", "[x", "Switch", "Ca 1", "garbage", "vendid=", " #"]
)
@pytest.mark.parametrize("mark", ["#\n", "\nSwitch", "\n[2]", "\nsysimgguid", "\nCa"])
def test_a_line_that_is_none_of_the_tool_is_refused_with_its_number(line: str, mark: str) -> None:
    text = pairs(2).text()
    at = text.rindex(mark) + len(mark) - len(mark.lstrip("\n"))
    found = refused(text[:at] + line + "\n" + text[at:])
    assert found.where == f"line {text.count(chr(10), 0, at) + 1}"
    assert refused(line + "\n" + text).where == "line 1"


def test_a_port_without_a_device_is_refused() -> None:
    text = pairs(2).text()
    port = text.index("\n[1]") + 1
    assert refused(text[port : text.index("\n", port) + 1] + text).where == "line 1"


def test_a_folded_line_and_a_line_of_another_tool_are_refused_with_their_number() -> None:
    text = pairs(1).text()
    folded = text.replace(" lid 7 4xNDR", "\n lid 7 4xNDR", 1)
    assert refused(folded).where.startswith("line ")
    assert "line 2" in refused(text.replace("# Topology", "CA 9 1 0xb8\n# Topology", 1)).where


def test_a_speed_that_the_tool_does_not_know_and_a_port_of_a_chassis_are_read() -> None:
    text = pairs(1).text()
    unknown = text.replace("4xNDR", "???", 1).replace("[2]\t", "[2][ext 14]\t", 1)
    assert len(dump_of(unknown).cables) == len(dump_of(text).cables)
    assert gbps("???") == gbps("??x??") == 0


def test_titles_of_chassis_comments_and_lines_of_the_search_are_passed_over() -> None:
    text = pairs(2).text()
    grouped = text.replace("\nvendid", "\n\nChassis 1 (guid 0xfc6a)\n# Spine Nodes\nvendid", 1)
    grouped = grouped.replace("(fc6a1c0300a00000)\n", "(fc6a1c0300a00000)\t# Chassis 1\n")
    assert dump_of(f"DR path slid 0; 0,1 -> new Switch\n{grouped}") == dump_of(text)


def test_an_adapter_without_a_cable_is_a_fabric_of_its_own() -> None:
    built = pairs(1)
    built.fabric.cut(built.adapters["gpu-01"][0])
    found = dump_of(built.text("gpu-01"))
    assert [each.description for each in found.adapters] == ["gpu-01 mlx5_0"]
    assert (found.switches, found.cables) == ((), ())


@given(st.data())
def test_the_order_of_blocks_and_of_their_ports_does_not_matter(data: st.DataObject) -> None:
    """The tool prints them as it finds them."""
    text = rails([["a", "b"], ["c"]], 2).text()
    head, *blocks = text.split("\nvendid")
    shuffled = data.draw(st.permutations(blocks))
    assert dump_of("\nvendid".join([head, *shuffled])) == dump_of(text)


def test_the_time_in_the_title_says_nothing_for_it_has_no_time_zone() -> None:
    text = pairs(1).text()
    for title in ("Tue Nov 24 16:10:47 2026", "yesterday"):
        assert dump_of(text.replace(MADE, title)) == dump_of(text)


def test_a_guid_is_the_same_as_hosts_and_dumps_write_it() -> None:
    assert normalized_guid("b83f:d203:00c0:0000") == "b83fd20300c00000"
    assert normalized_guid("0x8f10403960984") == "0008f10403960984"
    assert normalized_guid("0000:0000:0000:0000") is None
    assert normalized_guid("none") is normalized_guid(None) is None


@pytest.mark.parametrize("name", COUNTS)
def test_a_real_dump_has_the_devices_and_cables_that_its_index_says(name: str) -> None:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{name} is not there")
    found = dump_of(path.read_text())
    counts = (len(found.switches), len(found.adapters), len(found.cables))
    assert counts == COUNTS[name]
    assert bool(found.missing) == ("switch-blocks" in name)


def test_a_real_dump_has_the_adapters_that_the_workers_of_its_nodes_report() -> None:
    path = SHARED / "ib/broken.truth.json"
    if not path.is_file():
        pytest.skip("the truth of the broken fabric is not there")
    hosts = json.loads(path.read_text())["guid_to_node"]
    names = ("broken.ibnetdiscover.out", "broken-orphan.ibnetdiscover.out")
    seen = {
        each.guid for name in names for each in dump_of((SHARED / "ib" / name).read_text()).adapters
    }
    expected = {normalized_guid(guid) for guids in hosts.values() for guid in guids}
    assert expected - seen == {"b83fd20300c00050"}, "the one whose link is down is in no dump"
    assert not items(understood((SHARED / "ib" / names[0]).read_text()), str)
