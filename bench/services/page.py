"""The page over a large forest in Chromium, by the browser's own performance API.

Chromium draws in software here, on the cores on which the master works too.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, ViewportSize, sync_playwright

from bench import cluster
from bench.discovery.core import SETTINGS, built_state
from bench.figure import Figure, at_least, at_most, exact, median, p99, worst
from bench.processes import Master, in_child, switchbox_master
from bench.scale import CannotRunError, Progress, Scale
from master.state.document import SavedDiscovery
from topo.placement.booking.holds import FORMAT, HoldsMemory

_SCREEN = ViewportSize(width=1440, height=900)
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--enable-precise-memory-info")
_SOFTWARE = "drawn in software"
_LIMIT_MS = 120_000.0

# What the page did until its forest stood there: on the browser's clock, from the click on a link.
_FIRST = """() => {
  const [shown] = performance.getEntriesByName("forest-shown");
  const answer = performance.getEntriesByType("resource").find(
    ({ name }) => name.endsWith("/v1/topology"));
  return shown === undefined ? null : {
    shown_ms: shown.startTime,
    answered_ms: answer.responseEnd,
    kilobytes: answer.encodedBodySize / 1000,
  };
}"""
# The wheel turns once a frame, closer and farther again.
_ZOOM = """async (count) => {
  const { map, frames } = topoPage;
  const box = map.canvas.getBoundingClientRect();
  const at = { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 };
  const frame = () => new Promise(requestAnimationFrame);
  const ends = [];
  frames.length = 0;
  for (let n = 0; n < count; n += 1) {
    const deltaY = n % 60 < 30 ? -40 : 40;
    map.canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, cancelable: true, ...at }));
    ends.push(await frame());
  }
  return { between_ms: ends.slice(1).map((end, n) => end - ends[n]), script_ms: [...frames] };
}"""
_HEAP = "performance.memory.usedJSHeapSize / 1e6"


@dataclass(frozen=True, slots=True)
class Zooming:
    """Milliseconds from frame to frame, and those of the page's own script in each."""

    between_ms: tuple[float, ...]
    script_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the browser said, a sample for each visit but for the zoom."""

    shown_ms: tuple[float, ...]
    answered_ms: tuple[float, ...]
    kilobytes: float
    heap_mb: tuple[float, ...]
    process_mb: tuple[float, ...]
    zooming: Zooming


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """The first picture, frames while zooming, and memory."""
    if shutil.which("chromium") is None:
        raise CannotRunError("there is no Chromium: apt-get install chromium")
    progress(f"a master starts with {scale.nodes:,} nodes")
    with (
        tempfile.TemporaryDirectory() as folder,
        remembering(Path(folder), scale.nodes) as (running, _),
    ):
        progress(f"{scale.visits} visits of its page, then {scale.frames} frames")
        seen = in_child(visited, scale, running.url)
    size = f"{scale.nodes:,} nodes"
    zoom = seen.zooming
    note = f"{_SOFTWARE}; of it {median(seen.answered_ms).value:.0f} ms until the tree was there"
    yield Figure(f"first picture, {size}", median(seen.shown_ms), "ms", at_most(1000), note)
    per_s = 1000 * len(zoom.between_ms) / sum(zoom.between_ms)
    yield Figure(f"frames while zooming, {size}", exact(per_s), "1/s", at_least(59), _SOFTWARE)
    yield Figure(f"from frame to frame, {size}: p99", p99(zoom.between_ms), "ms")
    yield Figure(f"script of a frame, {size}: p99", p99(zoom.script_ms), "ms")
    note = "of the page's process, what no other shares; after the zoom"
    yield Figure(f"memory, {size}", worst(seen.process_mb), "MB", at_most(150), note)
    yield Figure(f"heap of the scripts, {size}", worst(seen.heap_mb), "MB")
    yield Figure(f"/v1/topology as it is sent, {size}", exact(seen.kilobytes), "kB")


@contextmanager
def remembering(folder: Path, nodes: int, *more: str) -> Iterator[tuple[Master, str]]:
    """Run a master that knows a cluster of a size from its state file; and a worker token.

    `more` are flags of the master.
    """
    state = folder / "state" / "state.json"
    state.parent.mkdir()
    state.write_bytes(in_child(kept, nodes))
    flags = (f"--state-file={state}", "--beat-interval=1h")  # nobody beats, and none is stale
    with switchbox_master(folder, cluster.world_name(nodes), *flags, *more) as running:
        yield running


def kept(nodes: int) -> bytes:
    """The state file of a master that knows the whole cluster."""
    memory = built_state(nodes).persistent_state()
    return SavedDiscovery.of(memory, time.time()).with_holds(SETTINGS.mode, HoldsMemory(FORMAT, ()))


def visited(scale: Scale, url: str) -> Seen:
    """Each visit is of a browser that was never there; the last one zooms."""
    shown: list[float] = []
    answered: list[float] = []
    heap: list[float] = []
    process: list[float] = []
    first: dict[str, float] = {}
    zooming = Zooming((), ())
    with _chromium() as (browser, session):
        for visit in range(scale.visits):
            with _page(browser, url) as page:
                first = _until_shown(page)
                shown.append(first["shown_ms"])
                answered.append(first["answered_ms"])
                if visit == scale.visits - 1:
                    said = page.evaluate(_ZOOM, scale.frames)
                    zooming = Zooming(tuple(said["between_ms"]), tuple(said["script_ms"]))
                    page.evaluate("new Promise((done) => setTimeout(done, 500))")
                heap.append(page.evaluate(_HEAP))
                process.append(_private_mb(session))
    return Seen(
        shown_ms=tuple(shown),
        answered_ms=tuple(answered),
        kilobytes=first["kilobytes"],
        heap_mb=tuple(heap),
        process_mb=tuple(process),
        zooming=zooming,
    )


@contextmanager
def _chromium() -> Iterator[tuple[Browser, CDPSession]]:
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        yield browser, browser.new_browser_cdp_session()
        browser.close()


@contextmanager
def _page(browser: Browser, url: str) -> Iterator[Page]:
    context = browser.new_context(viewport=_SCREEN)
    context.set_default_timeout(_LIMIT_MS)
    page = context.new_page()
    page.goto(url)
    yield page
    context.close()


def _until_shown(page: Page) -> dict[str, float]:
    page.wait_for_selector("body[data-stage=live]")
    until_s = time.monotonic() + _LIMIT_MS / 1000
    while (first := page.evaluate(_FIRST)) is None:
        if time.monotonic() > until_s:
            raise CannotRunError("the page shows no forest")
        page.wait_for_timeout(20)
    found: dict[str, float] = first
    return found


def _private_mb(session: CDPSession) -> float:
    """Of the largest process of a page: what it shares with no other (proc_pid_smaps(5))."""
    processes: list[dict[str, Any]] = session.send("SystemInfo.getProcessInfo")["processInfo"]
    return max(_private_bytes(each["id"]) for each in processes if each["type"] == "renderer") / 1e6


def _private_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Private_"))
