"""What is logged, where it goes, and what never shows."""

import json
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from topo.kit.logs import LogSettings, RotatingFile, configure_logs, hide_in_text, hide_secrets
from topo.model.errors import BadInputError


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


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
    ],
)
def test_a_secret_is_hidden_wherever_it_stands(event: dict[str, object]) -> None:
    assert "s3cr3t" not in str(hide_secrets(None, "", event))


def test_places_of_secrets_and_facts_about_them_stay() -> None:
    event = {"token_file": "/secret/token", "credentials_dir": "/secret", "token": "", "n": 1}
    assert hide_secrets(None, "", event) == event
    assert hide_in_text("secretary of basic training") == "secretary of basic ***"
    assert hide_in_text("nothing to hide") == "nothing to hide"


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


def test_a_port_is_no_password() -> None:
    text = "asking http://127.0.0.1:8000/metrics"
    assert hide_secrets(None, "info", {"event": text}) == {"event": text}
