"""The parts of the product that are installed on demand (`extras` in pyproject.toml)."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_PRODUCT = ("topo", "master", "worker")


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Wrap imports of packages that `extra` installs; see `exit_for_missing`."""
    try:
        yield
    except ModuleNotFoundError as missing:
        exit_for_missing(missing, extra)


def exit_for_missing(missing: ModuleNotFoundError, extra: str) -> NoReturn:
    """Exit with code 2 and one line that says what to install.

    A missing module of this product is a defect and is raised again.
    """
    package = (missing.name or "").partition(".")[0]
    if package in _PRODUCT:
        raise missing
    sys.stderr.write(
        f"error: {package} is not installed; pip install 'supernode-topology[{extra}]'\n"
    )
    raise SystemExit(2) from None
