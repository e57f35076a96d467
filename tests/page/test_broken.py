"""The page while something on the way to it is broken: it says so, and never shows old as new."""

import os
import signal

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import RunningDemo
from tests.page.conftest import CEILING_MS

pytestmark = pytest.mark.e2e
expect.set_options(timeout=CEILING_MS)


@pytest.fixture(autouse=True)
def well(page: Page) -> None:
    """Each test begins when the page says that nothing is wrong."""
    expect(page.locator("#problems h2")).to_have_text("Nothing is wrong")


def test_what_was_missed_while_the_network_was_gone_is_there_without_a_reload(
    page: Page, demo: RunningDemo
) -> None:
    """The stream breaks, generations pass unseen, and the plan on the map is one of before."""
    page.evaluate("location.hash = '#/place?pods=2&gpus_per_pod=8'")
    expect(page.locator(".answer .verdict")).to_be_visible()
    expect(page.locator(".answer .only-lost")).to_be_hidden()
    page.context.set_offline(True)
    expect(page.locator("#banner")).to_contain_text("old")
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
