"""Child processes that die with their parent, by prctl(2) of Linux.

As a program, `python child_process.py PARENT_PID PROGRAM ARGUMENT…`, it ties itself to its parent
and then executes the other program. It imports nothing of this product, so it starts in 20 ms.
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
    """Ask the kernel to kill this process when its parent ends, also when that is killed.

    The request survives exec, and is not inherited by children. Does nothing on systems without
    prctl.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Make orphaned grandchildren children of this process instead of init."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent_command(program: str, *arguments: str) -> Sequence[str]:
    """Return the command line that runs a program, given by its path, tied to this process.

    The started process becomes the program: same process id, same exit status.
    """
    return (sys.executable, "-I", "-S", __file__, str(os.getpid()), program, *arguments)


def main(argv: list[str]) -> int:
    """Tie this process to its parent and execute the program; return only if that fails."""
    parent, program, *arguments = argv
    die_with_parent()
    if os.getppid() != int(parent):  # the parent ended before prctl took effect
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
