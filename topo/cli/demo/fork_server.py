"""Starts many processes of one program for the price of one: imports it once, then forks.

A worker imports for 0.7 s of CPU; eight of them would keep two cores busy for three seconds. This
program reads JSON lines `{"name", "argv", "log"}` from standard input, forks a process for each
that runs the console script named on its command line, says `NAME PID` for each on standard output
and ends. Its children become those of the demo, which adopts them.
"""

import ctypes
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NoReturn

from topo.kit.child_process import die_with_parent

_ADOPTION_S = 5.0


def main(script: str) -> None:
    """Forks the processes that standard input asks for."""
    (entry,) = entry_points(group="console_scripts", name=script)
    run: Callable[[], Any] = entry.load()
    demo = os.getppid()
    for line in sys.stdin:
        wanted = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _live(wanted, demo, run)
        print(wanted["name"], pid, flush=True)


def _live(wanted: dict[str, Any], demo: int, run: Callable[[], Any]) -> NoReturn:
    """The life of one forked process, from its birth to its exit code."""
    code = 1
    try:
        os.setsid()
        _redirect(wanted["log"])
        _await_adoption(demo)
        die_with_parent()
        if os.getppid() != demo:  # it died before the tie held
            os._exit(code)
        _rename(wanted["argv"])
        sys.argv = wanted["argv"]
        code = run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - it ends here, and its log says why
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _redirect(log: str) -> None:
    """Nothing from standard input, everything else into the log."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(source, target)


def _await_adoption(demo: int) -> None:
    """Returns when the nursery has ended and the demo is the parent."""
    deadline = time.monotonic() + _ADOPTION_S
    while os.getppid() != demo and time.monotonic() < deadline:
        time.sleep(0.002)


def _rename(argv: list[str]) -> None:
    """Shows the command line of this process in `ps`, as far as the old one leaves room for it.

    The kernel reads it from the memory between two addresses of /proc/PID/stat; see proc(5), fields
    48 and 49.
    """
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    room = end - start
    shown = "\0".join([Path(argv[0]).name, *argv[1:]]).encode()
    ctypes.memmove(start, shown[: room - 1].ljust(room, b"\0"), room)


if __name__ == "__main__":
    main(sys.argv[1])
