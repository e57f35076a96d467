"""The guard over everything that is logged can fail."""

from pathlib import Path

import pytest

from tests.secrecy import HEARD, leaks
from topo.discovery.manager.translation import Grant
from topo.kit import settings
from topo.kit.logs import LogSettings
from topo.kit.secrets import read_secret
from topo.kit.tokens import WorkerTokens


class LogsAlone(LogSettings):
    """The smallest settings that there are."""


def test_a_secret_in_a_text_is_found():
    """And only its beginning is shown."""
    assert leaks("… Bearer hunter2-hunter2 …", ["hunter2-hunter2", "absent-secret"]) == ["hunt…"]


@pytest.mark.parametrize("way", ["file", "tokens", "login", "address", "query"])
def test_secrets_are_heard_on_their_way_in(way, tmp_path):
    """Every door is listened to."""
    secret = f"heard-through-{way}"
    if way == "file":
        (tmp_path / "password").write_text(secret + "\n")
        read_secret(tmp_path / "password")
    elif way == "address":
        settings.read(LogsAlone, [f"--log-file=https://me:{secret}@host/log"])
    elif way == "query":
        settings.read(LogsAlone, [f"--log-file=https://host/log?sv=1&sig={secret}"])
    elif way == "login":
        Grant(secret, 60.0)
    else:
        WorkerTokens.parse(f"node-1 {secret}\n")
    assert secret in HEARD


def test_a_test_that_prints_a_secret_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    """Tried with a test run of its own."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makeconftest("from tests.conftest import *")
    pytester.makepyfile(
        """
        def test_careless(tmp_path):
            from topo.kit.secrets import read_secret
            (tmp_path / "password").write_text("correct-horse-battery")
            print("logged in with", read_secret(tmp_path / "password"))

        def test_careful():
            print("logged in")
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*test_careless logged 1 secrets*"])
