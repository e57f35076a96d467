"""Flags, variables and what is said when they do not fit."""

from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field

from topo.kit.durations import Seconds
from topo.kit.logs import LogSettings
from topo.kit.settings import (
    CommaList,
    Env,
    ServiceSettings,
    help_text,
    load,
    read,
    stray_variables,
)
from topo.model.errors import Refusal


class _Settings(LogSettings):
    removed: ClassVar = {"--save-every": "leave it out; it is 5 s"}
    server_port: Annotated[int, Env("VENDOR_PORT", "OLD_PORT")] = 9001
    """Port of the API."""
    mode: Literal["config", "dragonfly"] = "config"
    """Where the tree comes from."""
    enable_training: bool = False
    """Accepted, does nothing."""
    period: Seconds = 30.0
    """How often."""
    keys: CommaList = ("a", "b")
    """In order."""
    address: str = ""
    """Whom to ask."""

    def own_refusals(self) -> tuple[Refusal, ...]:
        if self.mode == "dragonfly" and not self.address:
            return (Refusal("no address", "--address", "give one"),)
        return ()


class _Needy(ServiceSettings):
    name: str
    """Who."""


def _read(*argv: str) -> _Settings:
    settings = read(_Settings, argv)
    assert isinstance(settings, _Settings), settings
    return settings


def _refused(*argv: str) -> Refusal:
    refused = read(_Settings, argv)
    assert isinstance(refused, tuple)
    return refused[0]


@pytest.mark.parametrize(
    ("word", "level"),
    [("INFO", "info"), ("Debug", "debug"), ("warn", "warning"), ("WARN", "warning")],
)
def test_a_log_level_is_taken_in_any_case_and_warn_is_one(word: str, level: str) -> None:
    assert _read(f"--log-level={word}").log_level == level


def test_what_is_no_log_level_is_refused_with_those_that_are() -> None:
    refusal = _refused("--log-level=loud")
    assert "'loud' does not fit" in refusal.what
    assert "'warning'" in refusal.what


@pytest.mark.parametrize(
    "port",
    [
        *("http://user:hunter2@h:1", "user:hunter2@h:1", "hun'ter2@h", "password=hunter2"),
        *("http://h:1/?sig=hunter2&a=b", "h:1?X-Amz-Signature=hunter2", "h:1?a=b&key=hunter2"),
    ],
)
def test_a_refused_value_is_shown_without_the_secret_in_it(port: str) -> None:
    """People put credentials into addresses, and what we print ends up in a pod's log."""
    refusal = _refused(f"--server-port={port}")
    assert "ter2" not in str(refusal)
    assert "***" in refusal.what


def test_an_argument_without_a_flag_is_shown_without_the_secret_in_it() -> None:
    refusal = _refused("http://user:hunter2@h:1")
    assert "hunter2" not in str(refusal)
    assert refusal.where == "http://***@h:1"


def test_flags_come_with_equals_or_as_the_next_word() -> None:
    settings = _read("--server-port=1", "--mode", "config", "--period=1w", "--keys=x, y,")
    assert (settings.server_port, settings.period) == (1, 604800)
    assert settings.keys == ("x", "y")


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        (["--enable-training"], True),
        (["--enable-training=true"], True),
        (["--enable-training=false"], False),
        ([], False),
    ],
)
def test_a_switch_may_stand_alone_or_with_a_value(argv: list[str], value: bool) -> None:  # noqa: FBT001
    assert _read(*argv).enable_training is value


def test_a_flag_given_twice_takes_its_last_value() -> None:
    assert _read("--server-port=1", "--server-port=2").server_port == 2


def test_a_flag_beats_our_variable_which_beats_the_vendors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLD_PORT", "3")
    assert _read().server_port == 3
    monkeypatch.setenv("VENDOR_PORT", "4")
    assert _read().server_port == 4
    monkeypatch.setenv("TOPO_SERVER_PORT", "5")
    assert _read().server_port == 5
    assert _read("--server-port=6").server_port == 6


def test_a_flag_with_nothing_behind_it_leaves_the_default() -> None:
    assert _read("--server-port=").server_port == 9001


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPO_SERVER_PORT", "")
    monkeypatch.setenv("VENDOR_PORT", "")
    assert _read().server_port == 9001


def test_a_list_in_a_variable_is_written_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPO_KEYS", "hostname,system_uuid")
    assert _read().keys == ("hostname", "system_uuid")


@pytest.mark.parametrize(
    ("argv", "where", "fix"),
    [
        (["--server-prt=1"], "--server-prt", "did you mean --server-port?"),
        (["--zzz"], "--zzz", "--help"),
        (["stray"], "stray", "--name=value"),
        (["--mode"], "--mode", "--mode=VALUE"),
        (["--mode", "--enable-training"], "--mode", "--mode=VALUE"),
        (["--server-port=x"], "--server-port", "Port of the API."),
        (["--mode=swithcbox"], "--mode", "Where the tree comes from."),
        (["--period=soon"], "--period", "How often."),
        (["--mode=dragonfly"], "--address", "give one"),
        (["--log-level=loud"], "--log-level", "lowest level"),
    ],
)
def test_what_does_not_fit_names_the_place_and_the_fix(
    argv: list[str], where: str, fix: str
) -> None:
    refused = _refused(*argv)
    assert refused.where == where
    assert fix in refused.fix


def test_a_bad_variable_is_named_as_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPO_SERVER_PORT", "x")
    assert _refused().where == "TOPO_SERVER_PORT"
    monkeypatch.delenv("TOPO_SERVER_PORT")
    monkeypatch.setenv("VENDOR_PORT", "y")
    assert _refused().where == "VENDOR_PORT"
    assert "'y'" in _refused().what


def test_every_finding_is_told_at_once() -> None:
    refused = read(_Settings, ["--server-port=x", "--mode=y"])
    assert isinstance(refused, tuple)
    assert {r.where for r in refused} == {"--server-port", "--mode"}


def test_a_missing_value_is_named() -> None:
    refused = read(_Needy, [])
    assert isinstance(refused, tuple)
    assert refused[0].fix == "give --name=VALUE"


def test_load_ends_the_process_with_2_and_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        load(_Settings, ["--server-prt=1"])
    assert end.value.code == 2
    assert "did you mean --server-port?" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--help", "-h", "--version"])
def test_help_and_version_go_to_stdout(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        load(_Settings, [flag])
    assert end.value.code == 0
    assert capsys.readouterr().out


def test_help_names_every_flag_variable_default_and_meaning() -> None:
    text = help_text(_Settings)
    for part in ("--server-port=9001", "TOPO_SERVER_PORT", "VENDOR_PORT", "Port of the API."):
        assert part in text
    for part in (
        "--enable-training=false",
        "--keys=a,b",
        "--period=30s",
        "--log-max-age=26w",
        "--log-file\n",
    ):
        assert part in text


def test_no_line_of_the_help_is_wider_than_80_columns() -> None:
    class Wordy(_Settings):
        first: Annotated[str, Field(description="many words about a flag " * 9)] = ""

    lines = help_text(Wordy).splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert " ".join(" ".join(lines).split()).count("many words about a flag") == 9


def test_a_misspelt_variable_is_pointed_out_and_a_service_link_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOPO_SERVR_PORT", "1")
    monkeypatch.setenv("TOPO_MASTER_SERVICE_SERVICE_PORT_HTTP", "9001")
    assert stray_variables(_Settings) == [
        "TOPO_SERVR_PORT is set but is no setting; did you mean TOPO_SERVER_PORT?"
    ]
    load(_Settings, [])
    assert "did you mean TOPO_SERVER_PORT?" in capsys.readouterr().err


def test_a_variable_is_read_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("topo_server_port", "5")
    assert _read().server_port == 5


@pytest.mark.parametrize("words", [("--save-every=7s",), ("--save-every", "7s")])
def test_a_flag_of_an_earlier_version_is_refused_with_what_to_do(words: tuple[str, ...]) -> None:
    refused = _refused(*words)
    assert (refused.where, refused.fix) == ("--save-every", "leave it out; it is 5 s")


def test_a_variable_of_an_earlier_version_is_refused_with_its_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOPO_SAVE_EVERY", "")
    assert _read().server_port == 9001
    monkeypatch.setenv("TOPO_SAVE_EVERY", "7s")
    refused = _refused()
    assert (refused.where, refused.fix) == ("TOPO_SAVE_EVERY", "leave it out; it is 5 s")
    assert "7s" in refused.what
