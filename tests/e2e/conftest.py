"""A running `topo demo` as a user has it: a process, a terminal's output, other commands."""

import json
import os
import signal
import subprocess
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import CEILING_S
from tests.support.waiting import eventually_in_a_thread as eventually
from topo.sim.worlds.presets import demo_world

TOPO = str(Path(sysconfig.get_path("scripts")) / "topo")
NODES = frozenset(str(node.name) for node in demo_world().nodes)
TRUTH = {str(n.name): (str(n.switchbox), str(n.dragonfly)) for n in demo_world().nodes}


@dataclass
class RunningDemo:
    """One demo: `process` is `topo demo`, `directory` its TOPO_DEMO_DIR, `log` what it printed."""

    process: "subprocess.Popen[bytes]"
    directory: Path
    log: Path

    @property
    def text(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def told(self) -> Any:
        return json.loads((self.directory / "demo.json").read_text())

    def pid(self, name: str) -> int:
        pid: int = self.told()["pids"][name]
        return pid

    def topo(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Another terminal: it knows the demo's directory and nothing else."""
        return subprocess.run(
            [TOPO, *arguments],
            env=environment(self.directory),
            capture_output=True,
            text=True,
            check=False,
            timeout=CEILING_S,
        )

    def node_group(self) -> Any:
        """The vendor's document, None while nobody serves it."""
        return self.document("/node_group")

    def document(self, path: str) -> Any:
        """A document of the API, None while nobody serves it."""
        page = self.page(path)
        return None if page is None else json.loads(page)

    def page(self, path: str) -> str | None:
        """The text that the master answers there, None while nobody serves it."""
        host, _, port = self.told()["master"].removeprefix("http://").partition(":")
        try:
            with closing(HTTPConnection(host, int(port), timeout=CEILING_S)) as connection:
                connection.request("GET", path)
                answer = connection.getresponse()
                body = answer.read().decode()
        except (OSError, HTTPException):
            return None
        return body if answer.status == 200 else None

    def is_remembered(self) -> bool:
        """Whether the state file knows every node's worker: it is written once a second."""
        state = self.directory / "state" / "state.json"
        if not state.exists():
            return False
        nodes = json.loads(state.read_text())["memory"]["nodes"]
        return {node["identity"]["name"] for node in nodes} == NODES

    def written_faults(self) -> dict[Path, int]:
        """The time at which each file of faults was written last, by its path."""
        return {
            each: each.stat().st_mtime_ns
            for each in Path(self.told()["recordings"]).glob("*/faults.txt")
        }

    def is_ready(self) -> bool:
        document = self.node_group()
        return (
            document is not None
            and [root["status"] for root in document] == ["Ready", "Ready"]
            and set(leaves(document)) == NODES
        )


def environment(directory: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOPO_")}
    return {**kept, "TOPO_DEMO_DIR": str(directory)}


def leaves(vertices: list[Any]) -> Iterator[str]:
    for vertex in vertices:
        if vertex["kind"] == "node":
            yield vertex["name"]
        else:
            yield from leaves(vertex["child"])


def falsehoods(document: list[Any]) -> Iterator[str]:
    """Every group of the document that holds two nodes which truly are not together."""
    for vertex in document:
        if vertex["kind"] == "node":
            continue
        members = set(leaves([vertex]))
        level = 0 if vertex["kind"] == "switchbox" else 1
        if len({TRUTH[member][level] for member in members}) > 1:
            yield f"{vertex['kind']} {vertex['name']} holds {sorted(members)}"
        yield from falsehoods(vertex["child"])


@dataclass
class Witness:
    """Reads /node_group again and again, and notes whatever was wrong in any answer."""

    demo: RunningDemo
    wrong: list[str] = field(default_factory=list)
    answers: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self._over.wait(0.01):
            document = self.demo.node_group()
            if document is None:
                continue
            self.answers += 1
            self.wrong += self.doubts(document)

    def doubts(self, document: list[Any]) -> Iterator[str]:
        """What is wrong in one answer."""
        yield from falsehoods(document)
        if lost := NODES - set(leaves(document)):
            yield f"lost: {sorted(lost)} in {json.dumps(document)[:500]}"

    @contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self.watch)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()


@contextmanager
def running(directory: Path, log: Path, *more: str) -> Iterator[RunningDemo]:
    """A demo that is started; whatever a test does, nothing of it is left."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [TOPO, "demo", *more], stdout=out, stderr=out, env=environment(directory)
        )
    try:
        yield RunningDemo(process, directory, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(CEILING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RunningDemo]]:
    """Starts a demo in a directory of this test."""
    with ExitStack() as stack:

        def begin(*more: str) -> RunningDemo:
            return stack.enter_context(running(tmp_path / "demo", tmp_path / "log", *more))

        yield begin


@pytest.fixture
def own_demo(start: Callable[..., RunningDemo]) -> RunningDemo:
    """A demo of this test alone, whose tree stands."""
    return stands(start())


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDemo]:
    """A demo for all tests of a module that leave it as they find it."""
    home = tmp_path_factory.mktemp("stage")
    with running(home / "demo", home / "log") as begun:
        yield stands(begun)


def stands(begun: RunningDemo) -> RunningDemo:
    """The demo, when its tree is served and kept."""
    eventually(lambda: "Ctrl-C ends everything" in begun.text)
    eventually(begun.is_remembered)
    return begun


@pytest.fixture
def demo(stage: RunningDemo) -> Iterator[RunningDemo]:
    """The demo of the module; nothing is broken before and after the test."""
    before = stage.written_faults()
    yield stage
    if stage.written_faults() != before:  # most tests break nothing, and a command takes a second
        stage.topo("demo", "heal")
    eventually(stage.is_ready)
