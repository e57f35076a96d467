"""The page's past: two freely chosen moments compared, by keys and by an address that is sent."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.conftest import RunningDemo
from tests.page.conftest import CEILING_MS, shot
from tests.page.looking import violations
from tests.support.waiting import eventually_in_a_thread as eventually

pytestmark = pytest.mark.e2e
expect.set_options(timeout=CEILING_MS)

FIRST, SECOND = "node-sample3", "node-sample5"


@dataclass(frozen=True)
class Cuts:
    """When the cable of the first node was cut, and later, that one healed, of the second."""

    first: str
    second: str


@pytest.fixture(scope="module")
def cuts(demo: RunningDemo) -> Cuts:
    first = kept(demo, FIRST)
    return Cuts(first, kept(demo, SECOND))


def kept(demo: RunningDemo, name: str) -> str:
    """A moment at which the node alone had its cable cut and was NotReady for it; healed again."""
    cut: list[str] = []

    def newest() -> str | None:
        """The newest kept moment; None while none is, or nobody answers."""
        moments = (demo.document("/v1/history") or {}).get("moments")
        return moments[-1]["at"] if moments else None

    def was_cut(at: str) -> bool:
        was = demo.document(f"/v1/topology?{urlencode({'at': at})}")
        if was is None:
            return False
        down = [wire["node"] for wire in was["wires"] if wire["state"] != "up"]
        return down == [name] and {"NotReady"} == set(statuses(was["groups"], name))

    def is_kept() -> bool:
        cut[:] = [at for at in [newest()] if at and was_cut(at)]
        return bool(cut)

    assert demo.topo("demo", "cut", name).returncode == 0
    eventually(is_kept)
    assert demo.topo("demo", "heal").returncode == 0
    eventually(lambda: newest() not in {None, cut[0]} and demo.topo("doctor").returncode == 0)
    return cut[0]


def statuses(vertices: list[Any], name: str) -> Iterator[str]:
    """Of the node of this name among the vertices and below them."""
    for each in vertices:
        if each["name"] == name:
            yield each["status"]
        yield from statuses(each.get("child", []), name)


def opened(page: Page, at: str, other: str) -> None:
    page.goto(f"{page.url.split('?')[0]}?{urlencode({'at': at, 'with': other})}")


def test_what_moved_between_two_chosen_moments_is_found_by_keys_and_sent_by_address(
    page: Page, cuts: Cuts, complaints: list[str]
) -> None:
    eventually(lambda: page.locator(f"#past-with option[value='{cuts.second}']").count() == 1)
    page.locator("#past-slider").focus()
    expect(page.locator("#past-with")).to_be_hidden()
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
        expect(page.locator("body[data-stage=past]")).to_be_attached()
        expect(page.locator("#past")).not_to_contain_text("Loading")
        if urlencode({"at": cuts.first}) in page.url:
            break
    page.keyboard.press("Tab")
    chosen = page.get_by_label("Compare with", exact=True)
    expect(chosen).to_be_focused()
    while chosen.input_value() != cuts.second:
        page.keyboard.press("ArrowDown")
        assert chosen.input_value() != cuts.first, "the later ones stand before it"
    moved = page.locator("#problems .moved.past_between li")
    expect(moved.filter(has=page.get_by_role("link", name=FIRST, exact=True))).to_contain_text(
        "NotReady → Ready"
    )
    expect(moved.filter(has=page.get_by_role("link", name=SECOND, exact=True))).to_contain_text(
        "Ready → NotReady"
    )
    expect(page.locator("#problems")).to_contain_text(re.compile(r"Changed from \d.+ to \d"))
    expect(page.locator("#problems .past_since")).to_have_count(0)
    sent = page.url
    assert urlencode({"at": cuts.first, "with": cuts.second}) in sent
    shot(page, "compared")
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page, complaints) == []
    told = moved.all_text_contents()
    page.reload()
    expect(moved).to_have_text(told)
    opened(page, cuts.second, cuts.first)
    expect(page.locator("#state")).to_contain_text("Past: ")
    expect(moved).to_have_text(told)
    chosen.select_option("now")
    expect(page.locator("#problems .moved.past_since li").first).to_be_attached()
    assert "with=" not in page.url


def test_a_comparison_fits_a_narrow_screen_in_chinese(
    page: Page, cuts: Cuts, complaints: list[str]
) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    page.locator("#language").click()
    opened(page, cuts.first, cuts.second)
    expect(page.get_by_label("对比时刻", exact=True)).to_have_value(cuts.second)
    expect(page.locator("#problems")).to_contain_text("的变化")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 320
    box = page.locator("#past-with").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 320
    assert violations(page, complaints) == []
    shot(page, "compared-narrow")


def test_what_was_wrong_at_a_moment_is_listed_with_the_words_and_marks_of_the_live_page(
    page: Page, cuts: Cuts, demo: RunningDemo
) -> None:
    """The findings of then, judged of the tree of then, while nothing is wrong any more."""
    then = demo.document(f"/v1/findings?{urlencode({'at': cuts.second})}")["findings"]
    wrong = [each for each in then if each["severity"] == "wrong"]
    assert SECOND in wrong[0]["subjects"]
    page.goto(f"{page.url}?{urlencode({'at': cuts.second})}")
    listed = page.locator("#problems .findings > li")
    expect(listed.locator(".what")).to_have_text([each["what"] for each in then])
    expect(page.locator("#problems h3.verdict.bad .sign-bad")).to_have_count(1)
    expect(page.locator("#problems .finding.wrong")).to_have_count(len(wrong))
    listed.first.get_by_role("button").click()
    expect(page.locator("#why")).to_contain_text(SECOND)
    verdict = page.locator("#problems h3.verdict")
    english = verdict.inner_text()
    page.locator("#language").click()
    expect(verdict).not_to_have_text(english)
    shot(page, "past-findings")
    page.locator("#past-live").click()
    expect(page.locator("#problems h2.verdict.good")).to_have_count(1)
    expect(listed.locator(".what")).to_have_count(0)


def test_the_map_does_not_move_when_the_slider_comes(page: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/v1/history*", hold)
    page.reload()
    page.wait_for_selector("body[data-stage=live]")
    expect(page.locator("#past-slider")).to_be_hidden()
    before = page.evaluate("topoPage.map.size()")
    eventually(lambda: page.evaluate("true") and bool(held))  # a call lets routes be handled
    held[0].continue_()
    page.unroute("**/v1/history*")
    expect(page.locator("#past-slider")).to_be_visible()
    assert page.evaluate("topoPage.map.size()") == before


def test_a_node_that_was_well_is_drawn_as_such_and_signs_of_what_is_not_kept_are_not_explained(
    page: Page, cuts: Cuts
) -> None:
    """A dashed frame and `?` are for a node whose number of GPUs nobody knows."""
    page.goto(f"{page.url}?{urlencode({'at': cuts.first})}")
    expect(page.locator("body[data-stage=past]")).to_be_attached()
    seen = page.evaluate(
        """() => {
          const { map } = topoPage;
          const forest = map.back.getContext('2d');
          const words = [];
          const dashes = [];
          forest.fillText = (text) => words.push(text);
          forest.setLineDash = (dash) => dash.length > 0 && dashes.push(dash.join());
          map.redraw();
          map.paint();
          delete forest.fillText;
          delete forest.setLineDash;
          return { words, dashes, nodes: map.plan.tiles.map((tile) => tile.node.name) };
        }"""
    )
    assert set(seen["nodes"]) <= set(seen["words"])
    assert "?" not in seen["words"]
    assert set(seen["dashes"]) <= {"6,4", "2,3"}, "those of wires that are cut or unconfirmed"
    shown = page.locator("#legend li").filter(visible=True)
    expect(shown).to_have_text(["not ready", "cut wire", "seen from one end only"])
    shot(page, "past")
    page.locator("#past-live").click()
    expect(shown).to_have_count(7)


@pytest.mark.usefixtures("refusals")
def test_a_lost_network_is_told_while_the_past_is_shown(page: Page, cuts: Cuts) -> None:
    opened(page, cuts.first, cuts.second)
    expect(page.locator("body[data-stage=past]")).to_be_attached()
    page.context.set_offline(True)
    expect(page.locator("#banner")).to_contain_text("this browser is offline")
    expect(page.locator("#banner")).not_to_contain_text("picture of")
    expect(page.locator("#state")).to_contain_text("Past: ")
    page.context.set_offline(False)
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator("#state")).to_contain_text("Past: ")


@pytest.mark.usefixtures("refusals")
def test_a_comparison_with_a_moment_that_is_not_kept_is_refused_in_words(
    page: Page, cuts: Cuts
) -> None:
    opened(page, cuts.first, "2001-01-01T00:00:00Z")
    expect(page.locator("#past")).to_contain_text("what was then is not kept")
    expect(page.locator("#state")).to_have_text("Live")
