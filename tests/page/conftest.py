"""A demo of real processes and Debian's Chromium, started once for the tests of the page."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

from tests.e2e.conftest import RunningDemo, running
from tests.support.waiting import CEILING_S
from tests.support.waiting import eventually_in_a_thread as eventually

CEILING_MS = CEILING_S * 1000
SHOTS = os.environ.get("TOPO_PAGE_SHOTS")
"""A folder in which the pictures of the page are kept."""


@pytest.fixture(scope="package")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDemo]:
    """Eight nodes in two switchboxes, all of them well."""
    home = tmp_path_factory.mktemp("demo")
    with running(home / "demo", home / "log", "--no-jobs") as begun:
        eventually(lambda: "Ctrl-C ends everything" in begun.text)
        yield begun


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's, drawing in software."""
    found = shutil.which("chromium")
    assert found is not None, "apt-get install chromium"
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]  # tests may run as root, which has no sandbox
        yield playwright.chromium.launch(executable_path=found, args=arguments)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as begun:
        yield begun


@pytest.fixture(scope="package")
def window(browser: Browser) -> Iterator[BrowserContext]:
    """What the tests share of the browser: a renderer is kept, which takes half a second to start.

    Chromium has one for all pages of a host while one of them is open.
    """
    size = ViewportSize(width=1440, height=900)
    begun = browser.new_context(viewport=size, locale="en-GB", reduced_motion="reduce")
    begun.set_default_timeout(CEILING_MS)
    kept = begun.new_page()
    kept.route("**", lambda route: route.fulfill(content_type="text/html", body=""))
    kept.goto("http://127.0.0.1/")
    yield begun
    begun.close()


@pytest.fixture
def context(window: BrowserContext) -> Iterator[BrowserContext]:
    """A browser of somebody who was never here: it has kept nothing of what a test has seen."""
    yield window
    window.set_offline(False)
    kept, *opened = window.pages
    tools = window.new_cdp_session(kept)
    tools.send("Network.clearBrowserCache")
    for page in opened:
        seen = {"origin": urlsplit(page.url)._replace(path="", query="", fragment="").geturl()}
        tools.send("Storage.clearDataForOrigin", {**seen, "storageTypes": "all"})
        page.close()
    tools.detach()


@pytest.fixture
def complaints() -> list[str]:
    """What stands in the browser's console as an error, and fails the test at its end."""
    return []


@pytest.fixture
def refusals() -> None:
    """For a test in which calls are refused: the browser's console has each in its own words."""


@pytest.fixture
def page(
    request: pytest.FixtureRequest,
    context: BrowserContext,
    demo: RunningDemo,
    complaints: list[str],
) -> Iterator[Page]:
    """The page of the demo, live. Its console is free of errors, but for `refusals`."""
    page = context.new_page()
    page.on("console", lambda each: complaints.append(each.text) if each.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(demo.told()["master"])
    page.wait_for_selector("body[data-stage=live]")
    yield page
    if "refusals" in request.fixturenames:
        complaints = [each for each in complaints if "Failed to load resource" not in each]
    assert complaints == []


def shot(page: Page, name: str) -> None:
    """Keeps a picture of the page where somebody wants one."""
    if SHOTS is not None:
        page.screenshot(path=Path(SHOTS) / f"{name}.png")
