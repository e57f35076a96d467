"""A missing package is one line with what to install; a missing module of ours is a defect."""

import importlib

import pytest

from topo.kit.process.extras import needs


def test_a_missing_package_names_its_extra(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, nothing on standard output."""
    with pytest.raises(SystemExit) as ended, needs("master"):
        importlib.import_module("no_such_package.part")
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    line = "no_such_package is not installed; pip install 'supernode-topology[master]'"
    assert told.err == f"error: {line}\n"


def test_a_missing_module_of_ours_is_raised() -> None:
    """Advice to install something would hide the mistake."""
    with pytest.raises(ModuleNotFoundError, match=r"topo\.no_such_module"), needs("cli"):
        importlib.import_module("topo.no_such_module")
