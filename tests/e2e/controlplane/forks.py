"""Masters for the price of one: a process beside the tests imports the master once, then forks.

A master imports for a second of processor time, and a long run starts hundreds. A fork has the
environment, log, session and tie that an executed program has, and runs the same `main`. Tests
execute a master until the server has imported all, and where the environment has variables that
Python or the loader reads at execution. `tests/master`, demos and pods of the chart ask no server.

    tests  {"argv", "environment", "folder", "log"} ──►  server  ──fork──►  a master
           ◄──────────────────────── its number, a line

The server ends with its standard input, and the masters with the server.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from topo.cli.demo.fork_server import run_forked

_MASTER = (sys.executable, "-m", "master")
_READ_AT_EXECUTION = ("PYTHON", "LD_", "MALLOC_")
_READY = "ready\n"


class Forked:
    """A forked process, with what `Program` asks of a `Popen`; how it ended is not known."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle: int | None = None
        with suppress(ProcessLookupError):  # it has ended, and the server has waited for it
            self._handle = os.pidfd_open(pid)

    def __del__(self) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def poll(self) -> int | None:
        """None while it runs."""
        return 0 if self._has_ended(0.0) else None

    def wait(self, timeout: float | None = None) -> None:
        """Returns when it has ended; raises `TimeoutExpired` after so many seconds."""
        if not self._has_ended(timeout):
            assert timeout is not None
            raise subprocess.TimeoutExpired(str(self.pid), timeout)

    def send_signal(self, number: int) -> None:
        """Does nothing to one that has ended."""
        if self._handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        """Ends it at once."""
        self.send_signal(signal.SIGKILL)

    def _has_ended(self, timeout_s: float | None) -> bool:
        return self._handle is None or _is_readable(self._handle, timeout_s)


class ForkServer:
    """The client of one server, which begins with the first master that is asked for."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._is_ready = False

    def start(
        self, argv: tuple[str, ...], environment: Mapping[str, str], log: Path
    ) -> Forked | None:
        """Forks a master; None for another program, and while there is no server."""
        if argv[: len(_MASTER)] != _MASTER or any(map(_is_read_at_execution, environment)):
            return None
        if not self.serves:
            return None
        log.touch()  # it can be read from now on
        wanted = {
            "argv": argv[len(_MASTER) - 1 :],
            "environment": {**os.environ, **environment},
            "folder": str(Path.cwd()),
            "log": str(log),
        }
        return Forked(int(self._ask(json.dumps(wanted))))

    @property
    def serves(self) -> bool:
        """Whether it has imported all. Begins it, and does not wait for that."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            atexit.register(self.end)
        if not self._is_ready:
            said = self._process.stdout
            assert said is not None
            self._is_ready = _is_readable(said.fileno(), 0.0) and said.readline() == _READY
        return self._is_ready

    def _ask(self, line: str) -> str:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        return process.stdout.readline()

    def end(self) -> None:
        """Ends it and its masters."""
        process, self._process, self._is_ready = self._process, None, False
        if process is not None:
            with process:  # closes its standard input and waits
                atexit.unregister(self.end)


SERVER = ForkServer()


def _is_read_at_execution(variable: str) -> bool:
    return variable.startswith(_READ_AT_EXECUTION)


def _is_readable(handle: int, timeout_s: float | None) -> bool:
    looks = select.poll()
    looks.register(handle, select.POLLIN)
    return bool(looks.poll(None if timeout_s is None else timeout_s * 1000))


def serve() -> None:
    """Forks a master for each line of standard input, and writes its number to standard output."""
    from master.__main__ import main  # noqa: PLC0415 - the tests have not imported it

    server = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for how they end
    sys.stdout.write(_READY)
    sys.stdout.flush()
    for line in iter(sys.stdin.readline, ""):
        wanted: dict[str, Any] = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.chdir(wanted["folder"])
            os.environ.clear()
            os.environ.update(wanted["environment"])
            run_forked(wanted, server, main)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
