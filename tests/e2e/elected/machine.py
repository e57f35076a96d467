"""The machine of one master, whose wall clock can be stepped and whose disk can fail or be slow."""

import errno
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_name("machine_faults.c")
_STEP, _ERRNO, _PAUSE = range(3)
"""The numbers of the file, as `struct faults` has them."""


@dataclass(frozen=True)
class Machine:
    """What a program sees of its machine; `environment` puts it there."""

    faults: "np.memmap[tuple[int], np.dtype[np.int64]]"
    environment: Mapping[str, str]

    def step_clock(self, step_s: float) -> None:
        """The wall clock is off by so much from now on; the monotonic clock is not."""
        self.faults[_STEP] = round(step_s * 1e9)

    def fail_disk(self) -> None:
        """Each flush to the disk fails with EIO."""
        self.faults[_ERRNO] = errno.EIO

    def slow_disk(self, each_s: float) -> None:
        """Each flush takes so long."""
        self.faults[_PAUSE] = round(each_s * 1e3)

    def heal(self) -> None:
        """The clock is right again, and so is the disk."""
        self.faults[:] = 0


def compiled(folder: Path) -> Path:
    """Return the library of the faults, compiled into a folder.

    Raises `FileNotFoundError` where there is no C compiler.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("faults of clocks and disks need a C compiler: install gcc")
    library = folder / "machine_faults.so"
    command = (compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(library))
    subprocess.run((*command, str(SOURCE), "-ldl"), check=True)
    return library


def machine(library: Path, folder: Path) -> Machine:
    """Return a machine without faults, which are set in a file of the folder."""
    faults = folder / "machine_faults"
    environment = {"LD_PRELOAD": str(library), "MACHINE_FAULTS": str(faults)}
    return Machine(np.memmap(faults, dtype=np.int64, mode="w+", shape=(3,)), environment)
