"""Which tests may run beside each other."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import LONGEST, UNTRACED, WITHOUT_DEMOS

ROOT = Path(__file__).parents[2]


def test_every_file_that_has_a_place_in_the_runs_is_there() -> None:
    assert [
        each for each in (*LONGEST, *UNTRACED, *WITHOUT_DEMOS) if not (ROOT / each).exists()
    ] == []


@pytest.mark.slow
def test_a_long_file_of_one_test_begins_before_a_short_one_of_many(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one core, where the order in which files are given out is that in which they run."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest("from tests.conftest import *")
    many = "import pytest\n@pytest.mark.parametrize('number', range(9))\ndef test_one(number): pass"
    pytester.makepyfile(
        **{"tests/kit/test_many": many, "tests/chaos/test_chaos": "def test_long(): pass"}
    )
    distributed = ("-p", "no:cacheprovider", "-n", "1", "--dist", "loadfile", "-v")
    result = pytester.runpytest_subprocess(*distributed)
    result.assert_outcomes(passed=10)
    ran = [line for line in result.outlines if "PASSED" in line]
    assert "tests/chaos/test_chaos.py" in ran[0]


@pytest.mark.slow
def test_no_two_files_of_demos_run_at_once(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried with a run of its own, of three files on two cores."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest("from tests.conftest import *")
    notes_its_core = """
        import os
        from pathlib import Path

        def test_core():
            core = os.environ["PYTEST_XDIST_WORKER"]
            (Path(__file__).parents[2] / Path(__file__).stem).write_text(core)
        """
    files = ("tests/e2e/test_demo", "tests/page/test_page", "tests/kube/test_other")
    pytester.makepyfile(**dict.fromkeys(files, notes_its_core))
    result = pytester.runpytest_subprocess(
        *("-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile")
    )
    result.assert_outcomes(passed=3)
    core = {Path(file).name: (pytester.path / Path(file).name).read_text() for file in files}
    assert core["test_demo"] == core["test_page"] != core["test_other"]


@pytest.mark.slow
def test_the_files_of_a_folder_stay_on_one_core_and_help_comes_last(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two folders of five files on two cores; a core that has none left takes one of the other."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest("from tests.conftest import *")
    notes_its_core = """
        import os
        import pytest
        from pathlib import Path

        @pytest.mark.parametrize("number", range(3))
        def test_core(number):
            core = os.environ["PYTEST_XDIST_WORKER"]
            with (Path(__file__).parents[3] / "order").open("a") as order:
                order.write(f"{core} {Path(__file__).parent.name}\\n")
        """
    folders = ("tests/e2e/kubernetes", "tests/e2e/scheduling")
    files = [f"{folder}/test_{number}" for number in range(5) for folder in folders]
    pytester.makepyfile(**dict.fromkeys(files, notes_its_core))
    result = pytester.runpytest_subprocess(
        *("-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile", "--import-mode=importlib")
    )
    result.assert_outcomes(passed=30)
    lines = [each.split() for each in (pytester.path / "order").read_text().splitlines()]
    of_core = {core: [folder for each, folder in lines if each == core] for core, _ in lines}
    assert {ran[0] for ran in of_core.values()} == {"kubernetes", "scheduling"}
    for ran in of_core.values():
        changes = sum(before != after for before, after in pairwise(ran))
        assert changes <= 1, of_core
