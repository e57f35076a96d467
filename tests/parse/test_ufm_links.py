"""The links of a UFM are the fabric that ibnetdiscover prints; what is not whole is refused."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import discovery, shape
from tests.discovery.fabrics import listed, read, reports
from tests.discovery.groups.test_fabric_worlds import faulty_fabrics
from tests.support.fabric import Built, pairs, rails
from topo.discovery.modes import Mode
from topo.facts import parse
from topo.facts.infiniband import ufm_links
from topo.facts.infiniband.dumps import read_dump
from topo.facts.reading import windows
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump
from topo.model.observation import FabricLoaded

BUILT: dict[str, Callable[[], Built]] = {
    "the vendor's pairs on leaves": lambda: pairs(4, 2),
    "rails": lambda: rails([["a", "b", "c"], ["d", "e", "f"]], 4, 2),
}


def bare(dump: FabricDump) -> FabricDump:
    """What both formats say: no speed, no time, no port that is empty."""
    cables = tuple(each._replace(rate="") for each in dump.cables)
    switches = tuple(replace(each, ports=0) for each in dump.switches)
    return replace(dump, switches=switches, cables=cables, made_at=0)


@pytest.mark.parametrize("name", BUILT)
def test_the_links_of_a_ufm_are_the_fabric_that_ibnetdiscover_prints(name: str) -> None:
    """And make the same groups, by the GUIDs of workers; one of the adapters names no host."""
    built = BUILT[name]()
    guid = next(iter(built.adapters.values()))[0]
    device = built.fabric.devices[guid]
    built.fabric.devices[guid] = replace(device, description="MT4129 ConnectX7   Mellanox")
    assert bare(read(built.fabric.links())) == bare(read(built.text()))
    assert len(_same_groups(built)) > 1


@given(faulty_fabrics())
def test_random_fabrics_with_faults_have_the_same_groups_from_either_text(
    fabric: tuple[Built, dict[str, list[str]]],
) -> None:
    _same_groups(fabric[0])


def _same_groups(built: Built) -> dict[str, list[str]]:
    """What both texts make of the fabric, which is the same."""
    found = []
    for dump in (read(built.fabric.links()), read(built.text())):
        state = discovery(Mode.FABRIC)
        state.advance(0.0, listed(built.adapters), FabricLoaded((("a", dump),)), *reports(built))
        state.validate()
        found.append(shape(state))
    assert found[0] == found[1]
    return found[0]


def changed(change: Callable[[list[Any]], object]) -> str:
    links = [each for each in json.loads(pairs(2).fabric.links()) if "Agg" not in str(each)]
    links.sort(key=lambda link: "spine" in link["source_port_node_description"])
    change(links)
    return json.dumps(links)


def _far_end(link: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in link.items() if key.startswith("destination")}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (changed(lambda links: links.append(links[0] | _far_end(links[-1]))), "in two links"),
        (changed(lambda links: links[0].update(source_port_name="5")), "no GUID"),
        (changed(lambda links: links[-1].update(source_port_dname="9/9")), "and an adapter"),
        (changed(lambda links: links.append({"name": "a_1:b_2"})), "no GUID"),
        (changed(lambda links: links.append("a link")), "no link"),
    ],
)
def test_links_that_are_no_fabric_are_refused_with_their_number(text: str, word: str) -> None:
    found = parse(text)
    assert isinstance(found, Refusal)
    assert word in found.what
    assert "UFM 6.20" in found.fix


@given(st.floats(0.0, 0.999))
def test_an_answer_that_was_cut_off_is_no_smaller_fabric(share: float) -> None:
    text = pairs(3).fabric.links()
    assert isinstance(read_dump(text[: int(share * len(text))]), Refusal)


def test_links_are_parsed_one_by_one_however_the_list_is_made() -> None:
    """Other threads run between two of them; blanks between them are those of JSON."""
    links = [each for each in json.loads(pairs(2).fabric.links()) if "Agg" not in str(each)]
    spread = "\n\r [ " + " ,\n".join(json.dumps(each, indent=9) for each in links) + "\t]\n"
    assert bare(read(spread)) == bare(read(json.dumps(links)))


@pytest.mark.parametrize(
    "text",
    ["[", "[]x", "[{}", "[{},]", "[{} {}]", "[,{}]", '[{"a":' + "[" * 2000],
)
def test_a_list_that_is_no_json_is_refused(text: str) -> None:
    """`{}` stands for a link."""
    (link, *_) = json.loads(pairs(2).fabric.links())
    found = ufm_links.read(text.replace("{}", json.dumps(link)))
    assert isinstance(found, Refusal)
    assert "this is no whole JSON" in found.what


def test_a_link_longer_than_any_is_refused() -> None:
    found = ufm_links.read('[{"a": "' + "x" * ufm_links.MAX_LINK_CHARS + '"}]')
    assert isinstance(found, Refusal)


@pytest.mark.parametrize("unit", ["\n", " ", "\n ", "[", "\n[", "[{", '\n[{"', "\n\t[\n"])
def test_a_text_made_to_hold_up_its_recognition_is_searched_in_windows(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call looks at more than a window, so that other threads have their turn."""
    seen: list[int] = []

    class Watched:
        def finditer(self, text: str, begin: int, end: int) -> Iterator[re.Match[str]]:
            seen.append(end - begin)
            return ufm_links_begins.finditer(text, begin, end)

    ufm_links_begins = ufm_links.BEGINS
    monkeypatch.setattr(ufm_links, "BEGINS", Watched())
    assert not ufm_links.recognises(unit * ((1 << 20) // len(unit)))
    assert max(seen) <= windows.WINDOW
    assert len(seen) >= 4
