"""A job placed by hand on the page: what it shows is what the master, and `topo place`, answer."""

import json
import shlex
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.conftest import TRUTH, RunningDemo
from tests.page.conftest import CEILING_MS, shot
from tests.page.looking import click_node, tile_mark, violations
from tests.support.waiting import eventually_in_a_thread as eventually

pytestmark = pytest.mark.e2e
expect.set_options(timeout=CEILING_MS)

JOB = "#/place?pods=4&gpus_per_pod=8&group_size=16&mode=required&within=switchbox"
Groups = list[dict[str, int]]
BOX_OF = {node: box for node, (box, _) in TRUTH.items()}


@pytest.fixture
def placed(page: Page) -> Page:
    """The page with a plan of four pods in two groups, which one of two switchboxes takes."""
    expect(page.locator("#problems h2")).to_have_text("Nothing is wrong")
    page.evaluate(f"location.hash = '{JOB}'")
    expect(page.locator(".answer .verdict")).to_have_text("It fits, in groups: 2")
    return page


def shown(page: Page) -> Groups:
    """The groups that the map draws: of each the pods by node."""
    drawn: dict[str, list[dict[str, int]]] = page.evaluate(
        "Object.fromEntries(topoPage.map.marks.pods)"
    )
    indices = sorted({each["index"] for groups in drawn.values() for each in groups})
    return [
        {
            node: each["pods"]
            for node, groups in drawn.items()
            for each in groups
            if each["index"] == index
        }
        for index in indices
    ]


def by_command(page: Page, demo: RunningDemo) -> Groups:
    """The same of the command that the page offers, run as it stands there."""
    line = page.locator(".answer pre.command").inner_text()
    program, *arguments = shlex.split(line)
    assert program == "topo"
    done = demo.topo(*arguments, "--output", "json")
    assert done.returncode == 0, done.stderr
    groups: list[Any] = json.loads(done.stdout)["groups"]
    return [{node["name"]: node["pods"] for node in group["nodes"]} for group in groups]


def test_the_plan_is_drawn_proven_explained_and_the_command_finds_the_same(
    placed: Page, demo: RunningDemo, complaints: list[str]
) -> None:
    answer = placed.locator(".answer")
    expect(answer).to_contain_text("Proven the best there is, in all 8 aims.")
    expect(answer).to_contain_text("1 is the least there is")
    assert len({tuple(group) for group in shown(placed)}) == 2
    assert shown(placed) == by_command(placed, demo)
    for index, group in enumerate(shown(placed)):
        mark = answer.locator(".chip").nth(index)
        assert {tile_mark(placed, node) for node in group} == {mark.inner_text()}
    shot(placed, "place")
    for scheme in ("dark", "light"):
        placed.emulate_media(color_scheme=scheme)
        assert violations(placed, complaints) == []


def test_a_click_takes_a_node_down_and_the_plan_goes_elsewhere(
    placed: Page, demo: RunningDemo
) -> None:
    taken = next(iter(shown(placed)[0]))
    placed.get_by_label("it is down").check()
    click_node(placed, taken)
    expect(placed.locator(".assumptions li")).to_contain_text(taken)
    eventually(lambda: taken not in {node for group in shown(placed) for node in group})
    assert f"&down={taken}" in placed.url
    assert shown(placed) == by_command(placed, demo)
    shot(placed, "what-if")
    placed.reload()
    expect(placed.locator(".assumptions li")).to_contain_text(taken)
    placed.get_by_role("button", name=f"Assume nothing of {taken}").click()
    eventually(lambda: taken in {node for group in shown(placed) for node in group})


def test_a_refusal_says_what_is_missing_and_its_change_is_placed_by_a_button(page: Page) -> None:
    page.evaluate("location.hash = '#/place?pods=9&gpus_per_pod=8'")
    answer = page.locator(".answer")
    expect(answer.locator(".verdict")).to_have_text("It never fits on these nodes")
    expect(answer).to_contain_text("Needed 72, there are 64: 8 missing.")
    assert shown(page) == []
    shot(page, "refused")
    answer.get_by_role("button", name="Place this").first.click()
    expect(answer.locator(".verdict")).to_contain_text("It fits")
    expect(page.get_by_label("Pods", exact=True)).to_have_value("4")


@pytest.mark.usefixtures("refusals")
def test_what_is_no_job_is_said_at_its_field(page: Page) -> None:
    page.evaluate("location.hash = '#/place?pods=4&gpus_per_pod=8&group_size=12'")
    expect(page.locator(".answer")).to_contain_text("group_size")
    expect(page.get_by_label("GPUs per group")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("GPUs per group").fill("16")
    page.get_by_label("GPUs per group").press("Enter")
    expect(page.locator(".answer .verdict")).to_contain_text("It fits")


def test_labels_taints_usage_and_nodes_left_out_are_asked_for_and_stand_in_address_and_command(
    page: Page, demo: RunningDemo, complaints: list[str]
) -> None:
    page.evaluate("location.hash = '#/place?pods=2&gpus_per_pod=8&within=switchbox'")
    expect(page.locator(".answer .verdict")).to_contain_text("It fits")
    assert page.locator(".job details").get_attribute("open") is None
    box = next(iter({BOX_OF[node] for node in BOX_OF} - {BOX_OF[node] for node in shown(page)[0]}))
    page.get_by_text("More: usage, labels, taints").click()
    page.get_by_label("Labels of the nodes").fill(f"metax-tech.com/switchbox={box}\n")
    taints = page.get_by_label("Tolerated taints")
    taints.press_sequentially("j/n=p:NoSchedule\n c \n:NoExecute")  # letters that are keys, too
    taints.blur()
    eventually(lambda: {BOX_OF[node] for group in shown(page) for node in group} == {box})
    left_out = next(iter(shown(page)[0]))
    page.get_by_label("Not these nodes").fill(left_out)
    page.get_by_label("Usage").select_option("training")
    eventually(lambda: "usage=training" in page.locator(".answer pre.command").inner_text())
    nodes = {node for group in shown(page) for node in group}
    assert {BOX_OF[node] for node in nodes} == {box}
    assert left_out not in nodes
    assert shown(page) == by_command(page, demo)
    command = shlex.split(page.locator(".answer pre.command").inner_text())
    assert command[-6:-4] == ["--usage=training", f"--selector=metax-tech.com/switchbox={box}"]
    assert command[-4:] == [
        *("--toleration=j/n=p:NoSchedule", "--toleration=c", "--toleration=:NoExecute"),
        f"--exclude={left_out}",
    ]
    page.reload()
    expect(taints).to_have_value("j/n=p:NoSchedule\nc\n:NoExecute")
    expect(page.get_by_label("Usage")).to_have_value("training")
    eventually(lambda: {node for group in shown(page) for node in group} == nodes)
    assert violations(page, complaints) == []
    shot(page, "place-more")


REFUSED = {
    "exclude=node-sampl1": ("Not these nodes", "exclude", "node-sample1"),
    "tolerations=a:Never": ("Tolerated taints", "tolerations.0.effect", "NoExecute"),
    "selector=a": ("Labels of the nodes", "selector", "write KEY=VALUE"),
    "usage=play": ("Usage", "usage", "training or inference"),
}
"""What no job may say, with the field that it stands in, the master's name of it, and the fix."""


@pytest.mark.usefixtures("refusals")
def test_a_field_that_is_folded_opens_where_what_it_says_is_refused(page: Page) -> None:
    for given, (label, field, fix) in REFUSED.items():
        page.evaluate(f"location.hash = '#/place?pods=2&gpus_per_pod=8&{given}'")
        expect(page.locator(".answer .old")).to_contain_text(f"{field}: ")
        expect(page.locator(".answer .old")).to_contain_text(fix)
        expect(page.get_by_label(label)).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_label(label)).to_be_visible()
        expect(page.locator("[aria-invalid]")).to_have_count(1)
        page.locator(".job summary").click()


def test_keys_alone_place_a_job_and_take_a_node_down(page: Page) -> None:
    page.keyboard.press("j")
    pods = page.get_by_label("Pods", exact=True)
    expect(pods).to_have_value("2")
    pods.press("Enter")
    expect(page.locator(".answer .verdict")).to_contain_text("It fits")
    page.get_by_label("look at it").focus()
    page.keyboard.press("ArrowRight")
    page.locator("#map").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".job [role=status]")).to_contain_text("Enter for down")
    page.keyboard.press("Enter")
    expect(page.locator(".assumptions li")).to_have_count(1)


def test_the_form_fits_a_narrow_screen_in_chinese(placed: Page, complaints: list[str]) -> None:
    placed.set_viewport_size({"width": 320, "height": 640})
    placed.locator("#language").click()
    expect(placed.locator(".answer .verdict")).to_contain_text("可以放置")
    placed.locator(".job summary").click()
    expect(placed.get_by_label("容忍的污点")).to_be_visible()
    assert placed.evaluate("document.scrollingElement.scrollWidth") <= 320
    assert violations(placed, complaints) == []
    shot(placed, "place-narrow")


def test_a_plan_follows_the_forest(placed: Page, demo: RunningDemo) -> None:
    """A cable that is cut meanwhile takes its nodes out of the plan, without a click."""
    node = next(iter(shown(placed)[0]))
    assert demo.topo("demo", "cut", node).returncode == 0
    try:
        eventually(lambda: node not in {name for group in shown(placed) for name in group})
    finally:
        assert demo.topo("demo", "heal").returncode == 0


def test_names_with_markup_and_quotes_are_text_in_plan_and_command(placed: Page) -> None:
    evil = "<img src=x onerror=alert(1)>'\"; rm -rf ~ \u202e" + "n" * 200

    def answered(route: Route) -> None:
        document = route.fetch().json()
        document["explanation"] = [evil]
        for group in document["groups"]:
            group["domains"][0].update(name=evil, path=[evil])
            group["nodes"][0]["name"] = evil
        route.fulfill(json=document)

    placed.route("**/v1/placements", answered)
    placed.get_by_label("Mode").select_option("preferred")
    safe = evil.replace("\u202e", "\ufffd")
    expect(placed.locator(".pod-groups a").first).to_have_text(safe)
    expect(placed.locator(".sentences li").first).to_have_text(safe)
    assert placed.locator("img").count() == 0
    assert placed.evaluate("document.scrollingElement.scrollWidth") <= 1440
