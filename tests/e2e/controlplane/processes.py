"""Programs of the harness as child processes: nothing of them outlives the process that began them.

The kernel kills them with their parent, even one that is killed itself, so a run leaves nothing.
"""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.controlplane.forks import SERVER, Forked, ForkServer
from topo.kit.process.child_process import die_with_parent_command

_TAIL_BYTES = 3000


class EndedEarlyError(RuntimeError):
    """A program of the harness ended before it served; the message has the end of its log."""


@dataclass
class Program:
    """A command line with its log; it can be started, stopped and started again."""

    name: str
    argv: tuple[str, ...]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    server: ForkServer = SERVER
    _running: "subprocess.Popen[bytes] | Forked | None" = None

    @property
    def pid(self) -> int:
        """The number of the running process."""
        assert self._running is not None, f"{self.name} does not run"
        return self._running.pid

    @property
    def is_alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._running is not None and self._running.poll() is None

    @property
    def has_died(self) -> bool:
        """Whether it ended since it was started, and nobody stopped it."""
        return self._running is not None and self._running.poll() is not None

    def start(self) -> None:
        """Runs it in a session of its own: Ctrl-C is for the run, which ends the others."""
        assert not self.is_alive, f"{self.name} runs already"
        self._running = self.server.start(self.argv, self.environment, self.log)
        if self._running is not None:
            return
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                die_with_parent_command(*self.argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )

    def stop(self, grace_s: float = 10.0, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends it politely, then not; returns when it is gone."""
        if self._running is None:
            return
        self._running.send_signal(number)
        try:
            self._running.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()
        self._running = None

    def must_live(self) -> None:
        """Raises `EndedEarlyError` where it has ended by itself."""
        if not self.is_alive:
            raise EndedEarlyError(f"{self.name} has ended:\n{self.tail}")

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of JSON in its log; what is half written is not there yet."""
        written = self.log.read_text() if self.log.exists() else ""
        lines = written.rpartition("\n")[0].splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    @property
    def tail(self) -> str:
        """The end of its log."""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
            return log.read().decode(errors="replace")
