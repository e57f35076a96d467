"""Ties a process to the life of another, by what Linux offers; see prctl(2).

Run as a program it ties itself to its parent and becomes another program:
`python tether.py PARENT_PID PROGRAM ARGUMENT…`. It imports nothing of this product, so that it
starts in 20 ms.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def tie(parent: int) -> None:
    """This process gets SIGKILL when its parent is gone, even one that was killed itself.

    The tie survives exec, so the program that takes the process over knows nothing of it. Ends the
    process where the parent is another one already.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the tie held
        os._exit(1)


def adopt() -> None:
    """Grandchildren whose parent ends become children of this process, not of init."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def main(argv: list[str]) -> None:
    """Ties this process to its parent and becomes the program; does not return."""
    parent, program, *arguments = argv
    tie(int(parent))
    os.execv(program, [program, *arguments])  # noqa: S606 - a program and its list, no shell


if __name__ == "__main__":
    main(sys.argv[1:])
