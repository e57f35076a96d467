"""Gangs of a real cluster on the page, in Debian's Chromium: one that runs, one that waits.

The browser is driven by the loop of the test: a synchronous one would keep a loop of its own in
this thread until the session ends.
"""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Page, async_playwright, expect

from tests.e2e.controlplane.client import Api
from tests.e2e.scheduling.gang_master import GangMaster
from tests.e2e.scheduling.jobs import JOBS, PODS, pods_of, taker, volcano_job
from tests.e2e.scheduling.test_explained import gangs_of, stands
from tests.support.waiting import CEILING_S, eventually
from topo.sim.worlds.presets import World

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")
LIT = """() => Object.fromEntries(
  [...topoPage.map.marks.pods].map(([node, groups]) => [node, groups.map((each) => each.index)])
)"""
"""The groups of pods that the map marks at each node."""


@asynccontextmanager
async def looking(url: str) -> AsyncIterator[tuple[Page, list[str]]]:
    """The page of gangs, and what its console has as an error."""
    complaints: list[str] = []
    async with async_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]  # tests may run as root, which has no sandbox
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        page = await browser.new_page(locale="en-GB", reduced_motion="reduce")
        page.set_default_timeout(CEILING_S * 1000)
        page.on("console", lambda e: complaints.append(e.text) if e.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(f"{url}/#/gangs")
        yield page, complaints
        await browser.close()


async def test_who_looks_sees_which_gang_runs_where_and_why_the_other_waits(
    api: Api, world: World, master: GangMaster
) -> None:
    """In each switchbox somebody else has a node: of its groups only dragonflies are whole."""
    expect.set_options(timeout=CEILING_S * 1000)
    for host in (world.nodes[0], world.nodes[-1]):
        await api.create(PODS, taker(f"taker-{host.name}", str(host.name)))
    await api.create(JOBS, volcano_job("runs", 4, 16))
    await api.create(JOBS, volcano_job("waits", 8, 64))
    await eventually(lambda: bool(master.url))
    await eventually(lambda: _stands(master, "runs", "bound"))
    await eventually(lambda: _stands(master, "waits", "no-room"))
    (why,) = (gang["text"] for gang in await gangs_of(master) if gang["name"] == "waits")
    nodes = [each.node for each in await pods_of(api, "runs")]  # two of them to a group, by rank
    async with looking(master.url) as (page, complaints):
        gangs = page.locator("#gangs")
        await expect(gangs).to_contain_text("1 waiting, 1 placed")
        await expect(gangs.locator(".gangs a")).to_have_text(["default/waits", "default/runs"])
        first = gangs.locator(".gangs li").first
        await expect(first).to_contain_text("no room")
        await expect(first).to_contain_text(why)
        await first.locator("a").click()
        await expect(page.locator("#why h2")).to_contain_text("default/waits")
        await expect(page.locator("#why")).to_contain_text(why)
        await page.get_by_role("link", name="default/runs").click()
        await expect(page.locator("#why .pod-groups li")).to_have_count(2)
        assert await page.evaluate(LIT) == {node: [at // 2] for at, node in enumerate(nodes)}
        assert complaints == []


async def _stands(master: GangMaster, job: str, state: str) -> bool:
    return await stands(master, job) == state
