"""The parts of the product that are installed on demand (`extras` in pyproject.toml)."""

import gc
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution, requires
from typing import NoReturn

from topo.kit.process.modules import PRODUCT

_OF_AN_EXTRA = re.compile(
    r"""(?P<requirement>(?P<name>[\w.-]+)[^;]*);.*\bextra == ["'](?P<extra>\w+)"""
)


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Wrap imports of packages that `extra` installs; see `exit_for_missing`.

    No garbage is collected meanwhile: what imports make stays, and to look through it again and
    again took an eighth of the processor time that a master needs to start.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    except ModuleNotFoundError as missing:
        exit_for_missing(missing, extra)
    finally:
        if collects:
            gc.enable()


def exit_for_missing(missing: ModuleNotFoundError, extra: str) -> NoReturn:
    """Exit with code 2 and one line that says what to install.

    A missing module of this product is a defect and is raised again.
    """
    package = (missing.name or "").partition(".")[0]
    if package in PRODUCT:
        raise missing
    wanted = " ".join(f"'{each}'" for each in lacking(extra)) or package
    pip = f"{sys.executable} -m pip install {wanted}"
    sys.stderr.write(f"error: {package} of the extra [{extra}] is not installed; {pip}\n")
    raise SystemExit(2) from None


def lacking(extra: str) -> list[str]:
    """Return what these extras, such as `cli,sim`, require and this Python has not.

    They are the requirements themselves: the product may come from a file, and then no index has
    its name. Empty where it runs from its sources without being installed.
    """
    try:
        stated = map(_OF_AN_EXTRA.match, requires("supernode-topology") or ())
    except PackageNotFoundError:
        return []
    found = (each for each in stated if each and each["extra"] in extra.split(","))
    names = {each["name"]: each["requirement"].strip() for each in found}
    return [requirement for name, requirement in names.items() if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
