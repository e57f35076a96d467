"""The page as people meet it: Chromium over a running demo, whose cables are cut."""

import os
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.e2e.conftest import NODES, RunningDemo
from tests.page import pictures
from tests.page.conftest import CEILING_MS, shot
from tests.page.looking import EVIL, SHOWN, violations
from tests.support.waiting import eventually_in_a_thread as eventually

pytestmark = pytest.mark.e2e
expect.set_options(timeout=CEILING_MS)

CUT = "1 cable is down: node-sample3 (slot 1) to node-sample4 (slot 1)"


@pytest.fixture
def cut(demo: RunningDemo, page: Page) -> Iterator[Page]:
    """The page while a cable is cut."""
    assert demo.topo("demo", "cut", "node-sample3").returncode == 0
    try:
        yield page
    finally:
        assert demo.topo("demo", "heal").returncode == 0
        page.close()


@pytest.fixture(autouse=True)
def well(page: Page) -> None:
    """Each test begins when the page says that nothing is wrong."""
    expect(page.locator("#problems h2")).to_have_text("Nothing is wrong")


def colours(page: Page) -> set[tuple[int, ...]]:
    """The colours that are drawn on the map, once what was asked for is drawn."""
    drawn: list[int] = page.evaluate(
        """async () => {
          await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
          const { canvas, ctx } = topoPage.map;
          return [...new Set(new Uint32Array(
            ctx.getImageData(0, 0, canvas.width, canvas.height).data.buffer))];
        }"""
    )
    return {(word & 255, word >> 8 & 255, word >> 16 & 255) for word in drawn}


def ground(page: Page) -> list[int]:
    """The colour of the map in its corner."""
    drawn: list[int] = page.evaluate("[...topoPage.map.ctx.getImageData(0, 0, 1, 1).data]")
    return drawn[:3]


def colour(page: Page, name: str) -> tuple[int, ...]:
    word: str = page.evaluate(f"topoPage.map.look['{name}']")
    return tuple(int(part) for part in re.findall(r"\d+", word))


def test_the_forest_shows_every_node_and_what_is_free(page: Page) -> None:
    expect(page.locator("#state")).to_have_text("Live")
    expect(page.locator("#sum")).to_contain_text("8/8")
    expect(page.locator("#sum")).to_contain_text("64")
    tiles: list[str] = page.evaluate("topoPage.map.plan.tiles.map((tile) => tile.node.name)")
    assert set(tiles) == NODES
    assert page.evaluate("topoPage.map.plan.strands.length") == 4
    seen = colours(page)
    assert colour(page, "free") in seen
    assert colour(page, "bad") not in seen
    shot(page, "well")


def test_a_cut_cable_is_the_first_problem_and_a_click_says_why(
    cut: Page, complaints: list[str]
) -> None:
    first = cut.locator("#problems .finding").first
    expect(first).to_contain_text(CUT)
    expect(first).to_contain_text("check the cable")
    assert colour(cut, "bad") in colours(cut)
    shot(cut, "cut")
    first.locator("button").click()
    expect(cut.locator("#why h2")).to_contain_text("node-sample3")
    assert cut.url.endswith("#/node/node-sample3")
    wire = cut.locator("#why .wires li.down")
    expect(wire).to_contain_text("slot 1")
    expect(wire).to_contain_text("cut")
    expect(wire.get_by_role("link")).to_have_attribute("href", "#/node/node-sample4")
    expect(cut.locator("#why svg.matrix")).to_be_visible()
    expect(cut.locator("#why")).to_contain_text("its worker spoke")
    shot(cut, "why")
    for scheme in ("dark", "light"):
        cut.emulate_media(color_scheme=scheme)
        assert violations(cut, complaints) == []
    cut.reload()
    expect(cut.locator("#why h2")).to_contain_text("node-sample3")


def test_a_cable_that_was_cut_is_seen_as_it_was_by_sliding_back(
    demo: RunningDemo, page: Page, complaints: list[str]
) -> None:
    """By keys: the picture says that it is old, what has changed since, and is live again."""
    problems, state, slider = (
        page.locator("#problems"),
        page.locator("#state"),
        page.locator("#past"),
    )
    assert demo.topo("demo", "cut", "node-sample5").returncode == 0
    expect(problems).to_contain_text("1 cable is down: node-sample5")
    assert demo.topo("demo", "heal").returncode == 0
    expect(problems.locator("h2")).to_have_text("Nothing is wrong")
    moments: str = "fetch('v1/history').then((it) => it.json()).then((it) => it.moments)"
    healed = "NotReady", "Ready"

    def is_listed() -> bool:
        kept: int = page.evaluate(f"{moments}.then((all) => all.length)")
        listed: int = page.evaluate("Number(document.getElementById('past-slider').max)")
        return kept == listed > 1

    eventually(is_listed)
    link = page.get_by_role("link", name="node-sample5", exact=True)
    # The two ends may be healed one after the other: then the node stands there first as it is now.
    line = problems.locator(".moved.past_since li", has=link, has_text=" → ".join(healed))
    page.locator("#past-slider").focus()
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
        expect(page.locator("body[data-stage=past]")).to_be_attached()
        expect(slider).not_to_contain_text("Loading")
        if line.count() > 0:
            break
    expect(state).to_contain_text("Past: ")
    expect(slider).to_contain_text(re.compile(r"as of \d.+ ago"))
    expect(problems).to_contain_text("not how it is")
    eventually(lambda: colour(page, "bad") in colours(page))
    expect(line).to_contain_text(" → ".join(healed))
    expect(page.locator("#sum")).not_to_contain_text("GPU")
    assert "?at=20" in page.url
    shot(page, "past")
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page, complaints) == []
    line.get_by_role("link").click()
    expect(page.locator("#why .wires li.down")).to_contain_text("cut")
    page.reload()
    expect(state).to_contain_text("Past: ")
    assert colour(page, "bad") in colours(page)
    page.get_by_role("button", name="Show what is now").click()
    expect(state).to_have_text("Live")
    expect(problems.locator("h2")).to_have_text("Nothing is wrong")
    assert "at=" not in page.url
    assert colour(page, "bad") not in colours(page)


@pytest.mark.usefixtures("refusals")
def test_a_moment_that_is_not_kept_is_said_and_the_page_stays_live(page: Page) -> None:
    page.goto(page.url.split("#")[0] + "?at=2001-01-01T00:00:00Z")
    expect(page.locator("#past")).to_contain_text("what was then is not kept")
    expect(page.locator("#state")).to_have_text("Live")


@pytest.mark.usefixtures("cut")
def test_the_pictures_of_the_docs_are_made_of_a_demo_with_a_cut_cable(
    demo: RunningDemo, browser: Browser, tmp_path: Path
) -> None:
    """What `make pictures` writes is what lies in docs/pictures, and shows what is broken."""
    pictures.taken(demo, browser, tmp_path)
    made = {each.name for each in tmp_path.iterdir()}
    assert made | {pictures.RECORDING, pictures.LARGE} == {
        each.name for each in pictures.FOLDER.iterdir()
    }
    for folder in (tmp_path, pictures.FOLDER):
        for path in folder.glob("*.svg"):
            drawn = path.read_text(encoding="utf-8")
            assert pictures.BROKEN in drawn
            assert "url(http" not in drawn
        assert all(each.stat().st_size <= pictures.MOST_BYTES for each in folder.iterdir())


def test_dark_and_light_follow_the_system_until_somebody_chooses(page: Page) -> None:
    def is_dark() -> bool:
        return max(ground(page)) < 64

    def is_light() -> bool:
        return min(ground(page)) > 192

    page.emulate_media(color_scheme="dark")
    eventually(is_dark)
    shot(page, "dark")
    page.emulate_media(color_scheme="light")
    eventually(is_light)
    shot(page, "light")
    page.locator("#theme").click()
    eventually(is_dark)
    page.reload()
    page.wait_for_selector("body[data-stage=live]")
    eventually(is_dark)


def test_it_fits_a_narrow_screen_and_speaks_chinese(page: Page, complaints: list[str]) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    page.locator("#language").click()
    expect(page.locator("#problems h2")).to_have_text("一切正常")
    assert page.evaluate("document.documentElement.lang") == "zh"
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 320
    assert violations(page, complaints) == []
    shot(page, "narrow")


def test_the_language_button_is_read_with_any_font(page: Page) -> None:
    """A browser without Chinese letters shows boxes for them."""
    for words, name in (("ZH", "Switch to Chinese (ZH)"), ("EN", "切换到英语 (EN)")):
        button = page.get_by_role("button", name=name, exact=True)
        expect(button).to_have_text(words)
        button.click()


def test_help_tells_the_keys_the_version_of_the_master_and_where_more_is_written(
    demo: RunningDemo, page: Page, complaints: list[str]
) -> None:
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Help", exact=True)
    index = demo.document("/")
    expect(dialog).to_contain_text(f"{index['service']} {index['version']}, mode {index['mode']}")
    expect(dialog).to_contain_text(
        f"docs/page.md and docs/operations.md of the release {index['version']}"
    )
    told = dict(
        zip(
            dialog.locator("kbd").all_text_contents(),
            dialog.locator("dd").all_text_contents(),
            strict=True,
        )
    )
    assert told["n"] == "the next problem"
    page.keyboard.press("n")
    expect(dialog).to_be_visible()
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page, complaints) == []
    for link in dialog.get_by_role("link").all():
        answer = page.request.get(str(link.evaluate("(a) => a.href")))
        assert answer.ok, answer.url
    shot(page, "help")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.route(
        "**/", lambda route: route.fulfill(json={**index, "docs": "https://docs.example/topo/"})
    )
    page.get_by_role("button", name="Help", exact=True).click()
    expect(dialog.get_by_role("link", name="The documentation")).to_have_attribute(
        "href", "https://docs.example/topo/"
    )
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()


def test_what_has_no_such_name_is_said_so_and_how_to_find_it(page: Page) -> None:
    """It may have gone, or never have been: the page does not know, and says neither."""
    for place, words in (
        ("node", "No node has the name nope."),
        ("group", "No group has the path"),
    ):
        page.evaluate("(hash) => { location.hash = hash; }", f"#/{place}/nope")
        expect(page.locator("#why-body")).to_contain_text(words)
        expect(page.locator("#why-body")).to_contain_text("Find it by a part of its name")
        expect(page.locator("#why-body")).not_to_contain_text("any more")


def test_a_problem_that_is_on_the_screen_is_shown_without_moving_the_map(cut: Page) -> None:
    expect(cut.locator("#problems .finding")).to_have_count(1)
    cut.evaluate("location.hash = '#/node/node-sample1'")
    expect(cut.locator("#why h2")).to_contain_text("node-sample1")
    eventually(lambda: cut.evaluate("topoPage.map.screen.width === topoPage.map.size().width"))
    before = cut.evaluate("({ ...topoPage.map.camera })")
    cut.keyboard.press("n")
    expect(cut.locator("#why h2")).to_contain_text("node-sample3")
    assert cut.evaluate("({ ...topoPage.map.camera })") == before
    assert cut.evaluate("topoPage.map.is_fitted")
    cut.evaluate("topoPage.map.zoom(2, 0, 0)")
    cut.keyboard.press("n")
    inside = cut.evaluate(
        """() => {
          const { map } = topoPage;
          const { x, y } = map.plan.by_name.get('node-sample4');
          return map.isRead({ x, y, width: 148, height: 58 });
        }"""
    )
    assert inside, "what was off the screen is on it"


def test_the_keyboard_finds_a_node_and_goes_on_from_it(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("sample7")
    expect(page.locator("#found a")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("#why h2")).to_contain_text("node-sample7")
    page.keyboard.press("Escape")
    expect(page.locator("#why")).to_be_hidden()
    expect(page.locator("#map")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#why h2")).to_contain_text("node-sample")


@pytest.mark.usefixtures("refusals")
def test_a_master_that_dies_is_said_and_the_page_goes_on_without_a_reload(
    page: Page, demo: RunningDemo
) -> None:
    page.evaluate(
        """() => {
          globalThis.told = [];
          const banner = document.getElementById('banner');
          new MutationObserver(() => {
            if (!banner.hidden) told.push(banner.textContent);
          }).observe(banner, { subtree: true, childList: true, characterData: true });
        }"""
    )
    os.kill(demo.pid("topo-master"), signal.SIGKILL)
    eventually(lambda: bool(page.evaluate("told.length")))
    page.wait_for_selector("body[data-stage=live]")
    assert page.evaluate("told.every((text) => /lost for .* picture of .* old/.test(text))")
    expect(page.locator("#banner")).to_be_hidden()


@pytest.mark.usefixtures("refusals")
def test_a_stream_that_is_refused_is_said_with_the_masters_own_words(
    page: Page, demo: RunningDemo
) -> None:
    refusal = {"detail": "1000 event streams are open already", "fix": "close one"}

    def refused(route: Route) -> None:
        route.fulfill(status=503, content_type="application/problem+json", json=refusal)

    page.route("**/v1/topology/events*", refused)
    page.goto(demo.told()["master"])
    expect(page.locator("#banner")).to_contain_text("1000 event streams are open already")
    expect(page.locator("#banner")).to_contain_text("close one")
    expect(page.locator("#problems")).to_contain_text("When last heard")
    shot(page, "lost")
    page.unroute("**/v1/topology/events*")
    page.wait_for_selector("body[data-stage=live]")
    expect(page.locator("#problems")).not_to_contain_text("When last heard")


def test_the_forest_stands_before_it_is_judged_and_is_asked_for_once(page: Page) -> None:
    """To judge a large one takes the master as long as to tell it, and so does telling it twice."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/v1/findings", hold)
    page.reload()
    expect(page.locator("#problems h2")).to_have_text("Looking for what is wrong")
    tiles: list[str] = page.evaluate("topoPage.map.plan.tiles.map((tile) => tile.node.name)")
    assert set(tiles) == NODES
    assert page.locator("#state").text_content() == "Loading"
    eventually(lambda: page.evaluate("true") and bool(held))  # a call lets routes be handled
    held[0].continue_()
    page.unroute("**/v1/findings")
    page.wait_for_selector("body[data-stage=live]")
    expect(page.locator("#problems h2")).to_have_text("Nothing is wrong")
    assert asked.count("topology") == 1


@pytest.mark.usefixtures("refusals")  # the demo knows none of these nodes
def test_names_with_markup_are_text_everywhere(page: Page, demo: RunningDemo) -> None:
    document = demo.document("/v1/topology")
    box = document["groups"][0]
    box["name"], box["path"] = EVIL[0], [EVIL[0]]
    leaves = [leaf for fly in box["child"] for leaf in fly["child"]]
    for leaf, name in zip(leaves, EVIL, strict=True):
        leaf.update(name=name, status="NotReady", reasons=[{"code": name, "text": name}])
    names = list(EVIL)
    finding = {"severity": "wrong", "code": EVIL[0], "subject": ", ".join(EVIL), "subjects": names}
    finding |= {"what": EVIL[0], "next_step": EVIL[1]}
    answers = {"topology": document, "findings": {**document, "findings": [finding]}}

    def answered(route: Route) -> None:
        route.fulfill(json=answers[route.request.url.rpartition("/")[2]])

    for path in answers:
        page.route(f"**/v1/{path}", answered)
    page.reload()
    expect(page.locator("#problems .subject")).to_have_text(", ".join(SHOWN))
    for name, shown in zip(EVIL, SHOWN, strict=True):
        page.locator("#find").fill(name)
        page.locator("#found a", has_text=shown).last.click()
        expect(page.locator("#why .name")).to_have_text(shown)
        line = page.locator("#why pre.command").inner_text()
        assert shlex.split(line) == ["topo", "node", shown]
    assert page.locator("img").count() == 0
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 1440
    shot(page, "names")


def test_each_shared_card_of_a_node_says_what_is_free_or_that_it_is_broken(
    page: Page, demo: RunningDemo
) -> None:
    document = demo.document("/v1/topology")
    node = document["groups"][0]["child"][0]["child"][0]
    total, left = {"shares": 16, "cores": 100, "memory": 65536}, {"shares": 15, "cores": 40}
    card = {"id": "GPU-0", "family": "metax-sgpu", "model": "MXC500", "mode": "", "healthy": True}
    card |= {"total": total, "used": total, "free": {**left, "memory": 61440}}
    node["cards"] = [card, {**card, "id": EVIL[0], "healthy": False}]
    page.route("**/v1/topology", lambda route: route.fulfill(json=document))
    page.reload()
    page.locator("#find").fill(node["name"])
    page.locator("#found a", has_text=node["name"]).last.click()
    free = "shares free: 15 of 16, cores free: 40 of 100 (%), memory free: 61440 of 65536 (MiB)"
    lines = [f"GPU-0 · MXC500: {free}", f"{EVIL[0]} · MXC500: broken"]
    expect(page.locator("#why .cards li")).to_have_text(lines)


def test_without_scripts_the_forest_is_a_list(browser: Browser, demo: RunningDemo) -> None:
    context = browser.new_context(java_script_enabled=False)
    bare = context.new_page()
    bare.goto(demo.told()["master"])
    expect(bare.get_by_role("heading", level=1)).to_have_text("The forest")
    for name in NODES:
        expect(bare.get_by_role("listitem").filter(has_text=name).last).to_contain_text("Ready")
    context.close()
