"""A log line is written whatever stands in it: an event that cannot be encoded is not lost."""

import json
import logging
from pathlib import Path

import pytest
import structlog

from topo.kit.logs import LogSettings, configure_logs

pytestmark = pytest.mark.usefixtures("logging_as_it_was")


_LONE = "box\ud800"


def test_json_says_what_utf8_cannot(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(), "topo-test")
    structlog.get_logger("x").warning(
        _LONE, subject=_LONE, many=[{_LONE: _LONE}], path=Path("/a\udcff"), big=1 << 80, word="机柜"
    )
    out, err = capsys.readouterr()
    event = json.loads(out)
    assert err == ""
    assert (event["event"], event["subject"]) == (r"box\ud800", r"box\ud800")
    assert event["many"] == [{r"box\ud800": r"box\ud800"}]
    assert (event["path"], event["big"], event["word"]) == (r"/a\udcff", str(1 << 80), "机柜")


def test_the_console_and_the_file_do_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    configure_logs(LogSettings(log_format="console"), "topo-test")
    structlog.get_logger("x").warning(_LONE, subject=_LONE)
    out, err = capsys.readouterr()
    assert (out.count(r"box\ud800"), err) == (2, "")
    path = tmp_path / "log"
    configure_logs(LogSettings(log_file=path), "topo-test")
    logging.getLogger("library").warning("said %s", _LONE)
    assert json.loads(path.read_text())["event"] == r"said box\ud800"
