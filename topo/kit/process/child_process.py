"""Ties a process to the life of its parent, by what Linux offers; see prctl(2).

Run as a program it ties itself to its parent and becomes another program:
`python child_process.py PARENT_PID PROGRAM ARGUMENT…`. It imports nothing of this product, so that
it starts in 20 ms.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Sequence

CANNOT_START = 126
"""The exit status when the program cannot be started; POSIX, sh, 2.8.2."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
"""linux/prctl.h."""
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")


def die_with_parent() -> None:
    """The kernel kills this process when its parent is gone, even one that was killed itself.

    The tie survives exec, so the program that takes the process over knows nothing of it. It does
    not reach the process's children. Nothing happens where the system has no such thing.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Grandchildren whose parent ends become children of this process, not of init."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent_command(program: str, *arguments: str) -> Sequence[str]:
    """The command line that runs a program, given by its path, tied to this process.

    The program becomes the process that is started: same number, same exit status.
    """
    return (sys.executable, "-I", "-S", __file__, str(os.getpid()), program, *arguments)


def main(argv: list[str]) -> int:
    """Ties this process to its parent and becomes the program; returns only where that fails."""
    parent, program, *arguments = argv
    die_with_parent()
    if os.getppid() != int(parent):  # it died before the tie held
        return 1
    for name in _IGNORED_BY_PYTHON:  # exec would pass that on
        with contextlib.suppress(AttributeError):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execv(program, [program, *arguments])  # noqa: S606 - a program and its list, no shell
    except OSError as error:
        sys.stderr.write(f"it cannot be started: {error.strerror}\n")
        return CANNOT_START


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
