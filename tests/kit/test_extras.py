"""A missing package is one line with what to install; a missing module of ours is a defect."""

import gc
import importlib
import sys

import pytest

from topo.kit.process.extras import lacking, needs


def test_a_missing_package_names_its_extra(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, nothing on standard output."""
    with pytest.raises(SystemExit) as ended, needs("master"):
        importlib.import_module("no_such_package.part")
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    command = f"{sys.executable} -m pip install no_such_package"
    line = f"no_such_package of the extra [master] is not installed; {command}"
    assert told.err == f"error: {line}\n"


def test_what_an_extra_lacks_is_named_as_pip_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several extras each once, of what is installed nothing."""
    stated = [
        "aiohttp>=3.14",
        'no-such-a>=1,<3; extra == "cli"',
        "no_such_b ; extra == 'sim'",
        'no-such-a>=1,<3; extra == "sim"',
        'pytest>=8; extra == "sim"',
        'no-such-c; (python_version < "4") and extra == "dev"',
    ]
    monkeypatch.setattr("topo.kit.process.extras.requires", lambda _: stated)
    assert lacking("cli,sim") == ["no-such-a>=1,<3", "no_such_b"]
    assert lacking("dev") == ["no-such-c"]


def test_a_missing_module_of_ours_is_raised() -> None:
    """Advice to install something would hide the mistake."""
    with pytest.raises(ModuleNotFoundError, match=r"topo\.no_such_module"), needs("cli"):
        importlib.import_module("topo.no_such_module")


@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_collected_while_a_program_is_imported(*, collects: bool) -> None:
    """Afterwards it is as before, also where an import failed."""
    was = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        with needs("cli"):
            assert not gc.isenabled()
        assert gc.isenabled() == collects
        with pytest.raises(SystemExit), needs("cli"):
            importlib.import_module("no_such_package")
        assert gc.isenabled() == collects
    finally:
        (gc.enable if was else gc.disable)()
