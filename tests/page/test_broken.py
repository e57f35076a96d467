"""The page while something on the way to it is broken: it says so, and never shows old as new."""

import os
import re
import signal

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.conftest import RunningDemo
from tests.page.conftest import CEILING_MS, shot
from tests.support.waiting import eventually_in_a_thread as eventually

pytestmark = pytest.mark.e2e
expect.set_options(timeout=CEILING_MS)


@pytest.fixture(autouse=True)
def well(page: Page) -> None:
    """Each test begins when the page says that nothing is wrong."""
    expect(page.locator("#problems h2")).to_have_text("Nothing is wrong")


def test_a_browser_that_loses_its_network_says_so_at_once_and_how_old_the_picture_is(
    page: Page,
) -> None:
    """With the browser's event, however long the stream stays silent; here the master still answers
    the next try, as one on the browser's own machine does.
    """
    said = page.evaluate(
        """() => {
          globalThis.is_same = true;
          dispatchEvent(new Event('offline'));
          return document.body.dataset.stage + document.getElementById('banner').textContent;
        }"""
    )
    assert re.search(r"^lost\s+Connection lost for .+ picture of .+ old", said)
    assert "this browser is offline" in said
    expect(page.locator("#state")).to_have_text("Live")
    expect(page.locator("#banner")).to_be_hidden()
    assert page.evaluate("is_same"), "nobody loaded it again"


def test_a_try_that_began_without_a_network_is_given_up_when_there_is_one(page: Page) -> None:
    held: list[Route] = []

    def first_held(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/v1/topology", first_held)
    with page.expect_request("**/v1/topology"):
        page.evaluate("dispatchEvent(new Event('offline'))")
    seen: str = page.evaluate(
        """async () => {
          const why = document.getElementById('banner-why');
          const seen = [document.body.dataset.stage];
          new MutationObserver(() => seen.push(why.textContent)).observe(why, { childList: true });
          dispatchEvent(new Event('online'));
          while (document.body.dataset.stage !== 'live') {
            await new Promise((done) => setTimeout(done, 50));
          }
          return seen.join();
        }"""
    )
    eventually(lambda: page.evaluate("true") and bool(held))  # a call lets routes be handled
    held[0].abort()
    assert seen.startswith("lost")
    assert "no answer" not in seen


def test_a_master_that_hangs_is_said_and_banner_and_slider_agree_since_when(
    page: Page, demo: RunningDemo
) -> None:
    """It accepts connections and answers nothing: only its silence tells."""
    expect(page.locator("#past-time")).to_contain_text("Live; kept for")
    page.evaluate(
        """() => new MutationObserver(() => {
          const banner = document.getElementById('banner');
          if (!banner.hidden) globalThis.first ??= banner.textContent;
        }).observe(document.getElementById('banner'), { attributes: true })"""
    )
    master = demo.pid("topo-master")
    os.kill(master, signal.SIGSTOP)
    try:
        expect(page.locator("#banner")).to_contain_text("the master fell silent")
        expect(page.locator("#past-time")).to_contain_text("Last heard")
        expect(page.locator("#state")).to_have_text("Connection lost")
        banner, slider = page.evaluate(
            "[...document.querySelectorAll('#banner, #past-time')].map((each) => each.textContent)"
        )
        lost = re.search(r"lost for (.+): this is the picture of (.+), (.+) old", banner)
        heard = re.search(r"Last heard (.+), (.+) ago", slider)
        assert lost is not None
        assert heard is not None
        assert (lost[2], lost[1], lost[3]) == (heard[1], heard[2], heard[2])
        first = re.search(r"lost for (\d+) s", page.evaluate("first"))
        assert first is not None
        assert int(first[1]) >= 4, "it is lost since its last word, not since that is noticed"
        shot(page, "hung")
    finally:
        os.kill(master, signal.SIGCONT)
    expect(page.locator("#state")).to_have_text("Live")
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator("#past-time")).to_contain_text("Live; kept for")


def test_a_first_answer_that_is_long_in_coming_is_said_to_be_and_waited_for(page: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/v1/topology", hold)
    page.reload()
    expect(page.locator("#banner")).to_contain_text("no answer yet")
    expect(page.locator("#banner")).to_contain_text("there is no picture yet")
    for each in held:
        each.continue_()
    page.unroute("**/v1/topology")
    expect(page.locator("#state")).to_have_text("Live")
    expect(page.locator("#banner")).to_be_hidden()


@pytest.mark.usefixtures("refusals")
def test_what_was_missed_while_the_network_was_gone_is_there_without_a_reload(
    page: Page, demo: RunningDemo
) -> None:
    """The stream breaks, generations pass unseen, and the plan on the map is one of before."""
    page.evaluate("location.hash = '#/place?pods=2&gpus_per_pod=8'")
    expect(page.locator(".answer .verdict")).to_be_visible()
    expect(page.locator(".answer .only-lost")).to_be_hidden()
    page.evaluate(
        "addEventListener('offline', () => { globalThis.stage = document.body.dataset.stage; })"
    )
    page.context.set_offline(True)
    expect(page.locator("#banner")).to_contain_text("old")
    assert page.evaluate("stage") == "lost", "with the event, not when the silence was long enough"
    expect(page.locator(".answer .only-lost")).to_be_visible()
    try:
        assert demo.topo("demo", "cut", "node-sample3").returncode == 0
        expect(page.locator("#problems .old")).to_have_text("When last heard")
        page.context.set_offline(False)
        expect(page.locator("#problems")).to_contain_text("1 cable is down")
        expect(page.locator("#state")).to_have_text("Live")
        expect(page.locator("#banner")).to_be_hidden()
        expect(page.locator(".answer .only-lost")).to_be_hidden()
    finally:
        assert demo.topo("demo", "heal").returncode == 0


def test_a_silent_node_and_a_source_that_fails_are_shown_as_such(
    page: Page, demo: RunningDemo
) -> None:
    page.evaluate("location.hash = '#/node/node-sample5'")
    expect(page.locator("#why")).to_contain_text("its worker spoke")
    stopped = [demo.pid("topo-worker node-sample5"), demo.pid("cluster manager")]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        expect(page.locator("#why .state").first).to_have_text("NotReady")
        expect(page.locator("#why")).to_contain_text("its worker is silent")
        expect(page.locator("#why")).to_contain_text("cluster-manager: failing for")
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    expect(page.locator("#why .state").first).to_have_text("Ready")
    expect(page.locator("#problems h2")).to_have_text("Nothing is wrong")
