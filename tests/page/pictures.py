"""`python -m tests.page.pictures`: the pictures of the README and docs, from running masters.

A demo is started, a cable is cut, and what Chromium and the commands show of it is written down.
The large picture is of a master with a thousand simulated workers.
"""

import asyncio
import io
import json
import re
import shlex
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, ViewportSize
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from bench import cluster
from bench.processes import in_child
from bench.services.page import remembering
from bench.simulated_workers import simulated_workers
from tests.e2e.conftest import TOPO, RunningDemo, environment, running
from tests.page import recording
from tests.page.conftest import CEILING_MS, chromium
from tests.support.waiting import CEILING_S
from tests.support.waiting import eventually_in_a_thread as eventually
from topo.sim.fleet.facts import facts_of_host

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
MOST_BYTES = 300_000
RECORDING = "recording.svg"
LARGE = "page-large.png"
BROKEN = "node-sample3"
"""The node whose cable is cut."""
USUAL = "http://127.0.0.1:9001"
"""Where a demo listens that finds its ports free."""
_SCREEN = ViewportSize(width=1360, height=760)
_COLUMNS = 104
_COMMANDS = {"doctor": ("doctor",)}
SCREENS = (
    ("topo tree",),
    (f"topo demo cut {BROKEN}", "topo tree"),
    ("topo doctor",),
    ("topo demo heal", "topo place --pods 4 --gpus 8 --group-size 16"),
)
"""What the recording shows: the commands of each screen."""
STILL = 1
"""The screen that is shown where nothing may move."""
_PASSING = (
    (r"generation \d+", "generation 7"),
    (r"\d+\.\d s ago", "0.5 s ago"),
    (r"for \d+(?:\.\d)? s", "for 2 s"),
)
"""What is another at each run, and how it is written instead."""
Scheme = Literal["dark", "light"]
_NODES = 1_000
_HELD = ((8, 800), (64, 16), (32, 64), (128, 16), (16, 16), (4, 16), (96, 32), (50, 16))
"""Pods of jobs that are held in the large picture, and GPUs of their groups."""
_ASKED = "#/place?pods=64&gpus_per_pod=8&group_size=16"


def taken(demo: RunningDemo, browser: Browser, folder: Path) -> None:
    """Writes every picture of a demo whose cable at `BROKEN` is cut; raises where one is large."""
    eventually(lambda: "NotReady" in demo.topo("nodes", BROKEN).stdout)
    for name, command in _COMMANDS.items():
        (folder / f"{name}.svg").write_text(_terminal(demo, name, command), encoding="utf-8")
    for scheme in ("dark", "light"):
        (folder / f"page-{scheme}.png").write_bytes(_page(demo, browser, scheme, ""))
    (folder / "why.png").write_bytes(_page(demo, browser, "light", f"#/node/{BROKEN}"))
    for path in folder.iterdir():
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"{path.name} has {path.stat().st_size} bytes, {MOST_BYTES} at most")


def _terminal(demo: RunningDemo, name: str, command: tuple[str, ...]) -> str:
    """What a command shows on a terminal of `_COLUMNS`, as SVG without anything from elsewhere."""
    colours = {"FORCE_COLOR": "1", "COLUMNS": str(_COLUMNS), "TERM": "xterm-256color"}
    done = subprocess.run(
        [TOPO, *command],
        env={**environment(demo.directory), **colours},
        capture_output=True,
        text=True,
        check=False,  # the doctor's exit code says that something is wrong
        timeout=CEILING_S,
    )
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    said = done.stdout.rstrip().replace(demo.told()["master"], USUAL)
    console.print(Text.from_ansi(said), soft_wrap=True)
    title = f"topo {' '.join(command)}"
    drawn = console.export_svg(title=title, theme=MONOKAI, unique_id=f"terminal-{name}")
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r"<!--.*?-->", "", drawn, flags=re.DOTALL)
    return "\n".join(
        line.rstrip()
        for line in drawn.replace("Fira Code, monospace", recording.FONTS).splitlines()
    )


def recorded(demo: RunningDemo) -> str:
    """The recording of a demo in which nothing is broken, before and after it."""
    screens = [[recording.Said(each, _said(demo, each)) for each in screen] for screen in SCREENS]
    return recording.drawn(screens, STILL)


def _said(demo: RunningDemo, command: str) -> str:
    """What a command says once the demo has come to what the one before it wanted."""
    _, *arguments = shlex.split(command)
    said = recording.said((TOPO, *arguments), environment(demo.directory))
    if arguments[:2] == ["demo", "cut"]:
        eventually(lambda: _wrong(demo) == ["link-down"])
    elif arguments[:2] == ["demo", "heal"]:
        eventually(demo.is_ready)
    said = said.replace(demo.told()["master"], USUAL)
    for passing, usual in _PASSING:
        said = re.sub(passing, usual, said)
    return said


def large(browser: Browser, home: Path) -> bytes:
    """The page over a thousand nodes, some of them held, and where a job would go."""
    token = "of-a-master-on-the-loopback-address"
    writers = home / "writers"
    writers.write_text(token, encoding="utf-8")
    with remembering(home, _NODES, f"--api-token-file={writers}") as (master, worker_token):
        in_child(introduced, master.reports_port, worker_token)
        for pods, gpus in _HELD:
            _hold(master.url, token, {"pods": pods, "gpus_per_pod": 8, "group_size": gpus})
        seen = (".verdict.good", ".answer .verdict")
        return _picture(browser, "light", f"{master.url}{_ASKED}", seen)


def introduced(port: int, token: str) -> None:
    """Let every worker say everything, once."""

    async def introduce() -> None:
        facts = (facts_of_host(node) for node in cluster.cluster(_NODES).nodes)
        async with simulated_workers(port, token, facts, beat_s=3600):
            pass

    asyncio.run(introduce())


def _hold(url: str, token: str, job: dict[str, int]) -> None:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = json.dumps({**job, "hold_s": 3600}).encode()
    asked = urllib.request.Request(f"{url}v1/placements", body, headers)  # noqa: S310 - our own
    with urllib.request.urlopen(asked, timeout=CEILING_S) as answer:  # noqa: S310
        if not json.load(answer)["feasible"]:
            raise ValueError(f"{job} does not fit")


def _page(demo: RunningDemo, browser: Browser, scheme: Scheme, place: str) -> bytes:
    seen = ("#problems .finding", "#why .wires li.down" if place else "#problems .finding")
    return _picture(browser, scheme, f"{demo.told()['master']}/{place}", seen)


def _picture(browser: Browser, scheme: Scheme, url: str, seen: tuple[str, ...]) -> bytes:
    """The page at an address, once all that is to be seen is there."""
    context = browser.new_context(
        viewport=_SCREEN, color_scheme=scheme, locale="en-GB", reduced_motion="reduce"
    )
    context.set_default_timeout(CEILING_MS)
    page: Page = context.new_page()
    page.goto(url)
    for selector in ("body[data-stage=live]", "#past-slider", *seen):
        page.wait_for_selector(selector)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    picture = page.screenshot(animations="disabled")
    context.close()
    return picture


def main() -> None:
    """Writes docs/pictures anew."""
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as home,
        running(Path(home) / "demo", Path(home) / "log", "--no-jobs") as demo,
        chromium() as browser,
    ):
        eventually(lambda: "Ctrl-C ends everything" in demo.text)
        eventually(demo.is_ready)
        eventually(lambda: not _wrong(demo))  # workers of other demos may speak, too
        (FOLDER / RECORDING).write_text(recorded(demo), encoding="utf-8")
        demo.topo("demo", "cut", BROKEN)
        eventually(lambda: _wrong(demo) == ["link-down"])
        taken(demo, browser, FOLDER)
        large_home = Path(home) / "large"
        large_home.mkdir()
        (FOLDER / LARGE).write_bytes(large(browser, large_home))


def _wrong(demo: RunningDemo) -> list[str]:
    found = demo.document("/v1/findings")
    return [] if found is None else [each["code"] for each in found["findings"]]


if __name__ == "__main__":
    main()
