"""Compiles the small vendor libraries that tests load."""

import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parent / "native"


def compile_library(source: str, target: Path, *defines: str) -> Path:
    """The shared library made of a file in `native`, or a skip where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler on this machine: the vendor libraries cannot be built")
    flags = [f"-D{define}" for define in defines]
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wall", "-Werror", *flags, "-o", target, NATIVE / source],
        check=True,
        timeout=60,
    )
    return target
