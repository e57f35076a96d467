"""What is logged, where it goes, and what never shows."""

import json
import logging
import os
import time
from pathlib import Path

import pytest
import structlog
from yarl import URL

from topo.kit.logs import LogSettings, RotatingFile, configure_logs, hide_secrets
from topo.model.errors import BadInputError

pytestmark = pytest.mark.usefixtures("logging_as_it_was")


def test_json_lines_carry_time_level_service_and_the_fact(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs(LogSettings(), "topo-test")
    structlog.get_logger("x").info("tree changed", generation=3, path=Path("/a"))
    structlog.get_logger("x").debug("not at this level")
    event = json.loads(capsys.readouterr().out)
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "event": "tree changed",
        "generation": 3,
        "level": "info",
        "path": "/a",
        "service": "topo-test",
    }


def test_loggers_of_libraries_come_out_the_same_way(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(), "topo-test")
    logging.getLogger("aiohttp.server").warning("late %s", "password=hunter2")
    logging.getLogger("aiohttp.access").info("GET /")
    event = json.loads(capsys.readouterr().out)
    assert (event["event"], event["level"]) == ("late password=***", "warning")


def test_the_console_format_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(log_format="console", log_level="debug"), "topo-test")
    structlog.get_logger("x").debug("hello", token="t0psecret")
    out = capsys.readouterr().out
    assert "hello" in out
    assert "t0psecret" not in out
    assert "\x1b" not in out, "no colours into a pipe"


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_shows_no_local_variable(
    log_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs(LogSettings.model_validate({"log_format": log_format}), "topo-test")
    try:
        innermost_value = "hunter2hunter2"
        int(f"login failed: password={innermost_value}")
    except ValueError:
        structlog.get_logger("x").exception("failed")
    out = capsys.readouterr().out
    assert "ValueError" in out
    assert "login failed" in out
    assert "hunter2" not in out


@pytest.mark.parametrize(
    "event",
    [
        {"token": "s3cr3t"},
        {"worker_token": "s3cr3t"},
        {"Authorization": "Basic s3cr3t"},
        {"api-key": "s3cr3t"},
        {"headers": {"authorization": "s3cr3t"}},
        {"tries": [{"password": "s3cr3t"}]},
        {"text": "got Bearer s3cr3t from"},
        {"url": "https://user:s3cr3t@host/path"},
        {"body": '{"password": "s3cr3t", "username": "u"}'},
        {"error": ValueError("token=s3cr3t")},
        {"password": b"s3cr3t"},
        {"clientSecret": "s3cr3t"},
        {"AWS_SECRET_ACCESS_KEY": "s3cr3t"},
        {"body": b"token=s3cr3t"},
        {"seen": {"token=s3cr3t"}},
        {"seen": frozenset({"token=s3cr3t"})},
        {"url": URL("https://s3cr3t@host/")},
        {"url": URL("https://host/topology?sig=s3cr3t&page=2")},
        {"url": "http://host/a?x=1&X-Amz-Signature=s3cr3t"},
        {"error": ConnectionError("cannot connect to user:s3cr3t@proxy:3128")},
        {"signature": "s3cr3t"},
    ],
)
def test_a_secret_is_hidden_wherever_it_stands(event: dict[str, object]) -> None:
    assert "s3cr3t" not in str(hide_secrets(None, "", event))


def test_places_of_secrets_and_facts_about_them_stay() -> None:
    event = {"token_file": "/secret/token", "credentials_dir": "/secret", "token": "", "n": 1}
    assert hide_secrets(None, "", event) == event


def test_a_log_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError, match="cannot be opened"):
        configure_logs(LogSettings(log_file=tmp_path / "file" / "log"), "topo-test")


def test_a_log_file_is_written_and_its_directory_made(tmp_path: Path) -> None:
    configure_logs(LogSettings(log_file=tmp_path / "deep" / "log"), "topo-test")
    structlog.get_logger("x").info("hello")
    assert json.loads((tmp_path / "deep" / "log").read_text())["event"] == "hello"


def _write(handler: RotatingFile, text: str, at_s: float) -> None:
    record = logging.LogRecord("n", logging.INFO, "", 0, text, None, None)
    record.created = at_s
    handler.emit(record)


def test_a_file_of_an_earlier_period_is_renamed_and_old_ones_go(tmp_path: Path) -> None:
    """Restarts neither delay nor repeat a rotation; names that are not ours are left alone."""
    now_s = time.time()
    log = tmp_path / "log"
    log.write_text("last week\n")
    old, stranger = tmp_path / "log.20200101T000000Z", tmp_path / "log.txt"
    for path, age_s in ((log, 3700), (old, 9 * 86400), (stranger, 9 * 86400)):
        path.touch()
        os.utime(path, (now_s - age_s, now_s - age_s))
    handler = RotatingFile(log, rotation_s=3600, max_age_s=86400)
    assert not old.exists()
    assert stranger.exists()
    _write(handler, "new", now_s)
    _write(handler, "newer", now_s)
    handler.close()
    (rotated,) = tmp_path.glob("log.2*Z")
    assert rotated.read_text() == "last week\n"
    assert log.read_text() == "new\nnewer\n"


def test_only_renamed_logs_are_deleted_whatever_the_name(tmp_path: Path) -> None:
    """The folder may hold other things, and a name may have signs that patterns obey."""
    old, notes = tmp_path / "my[1].log.20200101T000000Z", tmp_path / "my[1].log.for-Z"
    folder = tmp_path / "my[1].log.20200102T000000Z"
    folder.mkdir()
    for path in (old, notes):
        path.write_text("x")
    for path in (old, notes, folder):
        os.utime(path, (1, 1))
    RotatingFile(tmp_path / "my[1].log", 3600, 86400).close()
    assert not old.exists()
    assert notes.exists()
    assert folder.exists()


@pytest.mark.parametrize("obstacle", ["directory-gone", "name-taken"])
def test_a_log_file_that_cannot_be_renamed_is_written_on(
    obstacle: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "log"
    handler = RotatingFile(log, rotation_s=3600, max_age_s=86400)
    _write(handler, "before", time.time())
    if obstacle == "directory-gone":
        log = (tmp_path / "logs").rename(tmp_path / "moved") / "log"
    else:
        began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() // 3600 * 3600))
        (tmp_path / "logs" / f"log.{began}").mkdir()
    _write(handler, "after", time.time() + 3600)
    handler.close()
    assert log.read_text() == "before\nafter\n"
    assert "is not rotated" in capsys.readouterr().err


def test_a_log_that_cannot_be_written_is_told_once_without_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A full disk: `logging` would print a traceback for each line, secrets unmasked."""
    settings = LogSettings(log_file=Path("/dev/full"), log_format="json")
    configure_logs(settings, "topo-master")
    for _ in range(3):
        structlog.get_logger("x").warning("login failed", password="hunter2-hunter2")
    err = capsys.readouterr().err
    assert err == "lines of the log are lost: /dev/full: No space left on device\n"
    with pytest.raises(OSError, match="No space left"):
        logging.getLogger().handlers[0].close()


def test_a_port_is_no_password() -> None:
    text = "asking http://127.0.0.1:8000/metrics"
    assert hide_secrets(None, "info", {"event": text}) == {"event": text}
