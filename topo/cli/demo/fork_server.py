"""Starts many processes of one program for the price of one: imports it once, then forks.

A worker imports for 0.5 s of CPU, so eight of them would delay the demo's tree by 2 s on two cores.
Reads a JSON list of `{"name", "argv", "log"}` from standard input, forks a process for each that
runs the console script, writes a line `PID NAME` for each to standard output, and ends. Its
children become those of the demo, which adopts them.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, NoReturn

from topo.kit.process.child_process import die_with_parent

_ADOPTION_S = 5.0


def main(script: str) -> None:
    """Forks the processes that standard input asks for."""
    (entry,) = entry_points(group="console_scripts", name=script)
    program: Callable[[], Any] = entry.load()
    demo = os.getppid()
    for wanted in json.load(sys.stdin):
        pid = os.fork()
        if pid == 0:
            run_forked(wanted, demo, program)
        print(pid, wanted["name"], flush=True)


def run_forked(wanted: dict[str, Any], parent: int, program: Callable[[], Any]) -> NoReturn:
    """Run the program in a forked process to its exit code; it ends with its parent at the latest.

    `wanted` has the `argv` and the `log`.
    """
    code = 1
    try:
        os.setsid()
        _redirect(wanted["log"])
        _await_adoption(parent)
        die_with_parent()
        if os.getppid() != parent:  # it died before the tie held
            os._exit(code)
        sys.argv = wanted["argv"]
        code = program()
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


def _await_adoption(parent: int) -> None:
    """Return when this is the parent: the demo is, once the fork server has ended."""
    deadline = time.monotonic() + _ADOPTION_S
    while os.getppid() != parent and time.monotonic() < deadline:
        time.sleep(0.002)


if __name__ == "__main__":
    main(sys.argv[1])
