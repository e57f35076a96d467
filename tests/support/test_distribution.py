"""Which tests may run beside each other."""

from pathlib import Path

import pytest


@pytest.mark.slow
def test_no_two_files_of_demos_run_at_once(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried with a run of its own, of three files on two cores."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makeconftest("from tests.conftest import *")
    notes_its_core = """
        import os
        from pathlib import Path

        def test_core():
            core = os.environ["PYTEST_XDIST_WORKER"]
            (Path(__file__).parents[2] / Path(__file__).stem).write_text(core)
        """
    files = ("tests/e2e/test_demo", "tests/e2e/test_readme", "tests/kube/test_other")
    pytester.makepyfile(**dict.fromkeys(files, notes_its_core))
    result = pytester.runpytest_subprocess(
        *("-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile")
    )
    result.assert_outcomes(passed=3)
    core = {Path(file).name: (pytester.path / Path(file).name).read_text() for file in files}
    assert core["test_demo"] == core["test_readme"] != core["test_other"]
