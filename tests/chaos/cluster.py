"""A cluster of real processes, each in a session of its own, tied to this process.

The command lines are those of `topo demo`. What a process is done to is said to the truth first.
"""

import asyncio
import json
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.chaos.model import service
from tests.chaos.model.truth import SILENT, Truth
from tests.chaos.model.verdicts import Violation
from tests.chaos.schedule import MASTER
from topo.cli import worlds
from topo.cli.demo.plan import DemoFiles, DemoPorts, prepare, programs
from topo.cli.demo.processes import Program, environment
from topo.discovery.modes import DiscoverySettings
from topo.kit.process.child_process import die_with_parent_command

_AGAIN_S, _LOOK_S = 1.0, 0.05
Found = Callable[[Violation], None]


class Cluster:
    """The processes, by the names that the demo gives them, in a directory and on ports."""

    def __init__(
        self, place: tuple[Path, DemoPorts], truth: Truth, now: Callable[[], float], found: Found
    ) -> None:
        world = worlds.chosen(truth.wiring.world)
        home, self.ports = place
        self.files = DemoFiles(home)
        self.truth, self._now, self._found = truth, now, found
        prepare(self.files, world, self.ports)
        made = programs(self.files, world, truth.wiring.world, self.ports)
        self._programs = {program.name: program for program in made}
        beat = f"--beat-interval={truth.bounds.stale_s / DiscoverySettings().stale_beats}"
        self._programs[MASTER] = _with(self._programs[MASTER], beat)
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self.may_end: set[str] = set()
        """Processes that may end by themselves for now; they are not started again."""
        self._read_to: dict[Path, int] = defaultdict(int)
        self.locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def names(self) -> tuple[str, ...]:
        """All processes."""
        return tuple(self._programs)

    @property
    def state(self) -> Path:
        """The master's state file."""
        return self.files.state / "state.json"

    def saved_generation(self) -> int | None:
        """The generation in the state file, None where it cannot be read."""
        try:
            generation: int = json.loads(self.state.read_bytes())["memory"]["generation"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return generation

    def manager(self) -> Any:
        """Where the simulated manager is steered, None while it does not serve."""
        try:
            return json.loads((self.files.manager / "ready.json").read_text())
        except (OSError, ValueError):
            return None

    async def start(self, name: str) -> None:
        """Runs one of them, if it does not run."""
        if name in self._running:
            return
        process = await self.spawn(name)
        self._running[name] = process
        watcher = asyncio.create_task(self._watch(name, process))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        self._back(name)

    async def served(self) -> None:
        """Returns when the master, which runs, has answered, or should have long ago."""
        while not self.truth.is_serving(self._now()):
            await asyncio.sleep(_LOOK_S)

    async def spawn(self, name: str, *flags: str) -> asyncio.subprocess.Process:
        """A process like that of this name, with other values of these flags."""
        program = _with(self._programs[name], *flags)
        with program.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *die_with_parent_command(*program.argv),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
                start_new_session=True,
            )

    async def _watch(self, name: str, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        if self._running.get(name) is not process:
            return
        del self._running[name]
        self._away(name)
        if name not in self.may_end:
            self._found(service.exit_of(name, code))
            await asyncio.sleep(_AGAIN_S)
            await self.start(name)

    async def stop(self, name: str, number: signal.Signals) -> None:
        """Ends it, by SIGKILL or politely; returns when it is gone."""
        process = self._running.pop(name, None)
        if process is None:
            return
        self._away(name)
        process.send_signal(number)
        code = await self.ended(process)
        for violation in service.asked_to_end(name, code):
            self._found(violation)

    async def ended(self, process: asyncio.subprocess.Process) -> int | None:
        """Its exit code; None where it does not end in time, and then it is killed."""
        code = None
        with suppress(TimeoutError):
            async with asyncio.timeout(self.truth.bounds.start_s):
                code = await process.wait()
        if code is None:
            process.kill()
            await process.wait()
        return code

    async def pause(self, name: str, lasts_s: float) -> None:
        """Stands still for a time."""
        process = self._running.get(name)
        if process is None:
            return
        self._away(name)
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(lasts_s)
        process.send_signal(signal.SIGCONT)
        self._back(name)

    def _away(self, name: str) -> None:
        if name == MASTER:
            self.truth.master_away(self._now())
        else:
            self.truth.begin(f"{SILENT}: {name}", self._nodes(name), self._now())

    def _back(self, name: str) -> None:
        if name == MASTER:
            self.truth.master_back(self._now())
        else:
            self.truth.end(f"{SILENT}: {name}", self._nodes(name), self._now())

    def _nodes(self, name: str) -> tuple[str, ...]:
        """The node whose worker it is."""
        return tuple(node for node in self.truth.wiring.nodes if name.endswith(f" {node}"))

    def new_logs(self) -> Iterator[tuple[str, str]]:
        """What was written since the last look, whole lines by log."""
        for path in sorted(self.files.logs.iterdir()):
            with path.open("rb") as file:
                file.seek(self._read_to[path])
                text = file.read()
            text = text[: text.rfind(b"\n") + 1]  # the rest of a line is read with its end
            self._read_to[path] += len(text)
            yield path.name, text.decode("utf-8", "replace")

    async def end(self) -> None:
        """Nothing of it is left."""
        for name in self.names:
            async with self.locks[name]:
                await self.stop(name, signal.SIGKILL)


def _with(program: Program, *flags: str) -> Program:
    """The program with these flags in place of others of their names."""
    names = {flag.partition("=")[0] for flag in flags}
    kept = [word for word in program.argv if word.partition("=")[0] not in names]
    return replace(program, argv=(*kept, *flags))
