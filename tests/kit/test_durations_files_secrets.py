"""Spans of time, watched files and secrets."""

import base64
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from topo.kit.durations import Seconds
from topo.kit.files import WatchedFile, read_bounded
from topo.kit.secrets import MAX_SECRET_BYTES, read_credential, read_secret, read_token
from topo.model.durations import format_duration, parse_duration
from topo.model.errors import BadInputError, Refusal


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        ("0.5", 0.5),
        ("250ms", 0.25),
        ("10s", 10),
        ("5m", 300),
        ("12h", 43200),
        ("1d", 86400),
        ("26w", 26 * 604800),
        (" 2h ", 7200),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "w", "1y", "-1s", "1 w", "1w2d", "٣s", "1e9"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    refused = parse_duration(text)
    assert isinstance(refused, Refusal)
    assert "30s" in refused.fix


@pytest.mark.parametrize("text", ["1w", "26w", "1d", "12h", "90s", "1m", "250ms", "0s", "1500ms"])
def test_a_duration_is_spelt_as_it_would_be_written(text: str) -> None:
    seconds = parse_duration(text)
    assert isinstance(seconds, float)
    assert format_duration(seconds) == text


class _Span(BaseModel):
    span: Seconds = 1.0


def test_a_setting_in_seconds_takes_numbers_and_units() -> None:
    assert _Span.model_validate({"span": "1w"}).span == 604800
    assert _Span.model_validate({"span": 3}).span == 3
    with pytest.raises(ValidationError, match="not a duration"):
        _Span.model_validate({"span": "soon"})
    with pytest.raises(ValidationError):
        _Span.model_validate({"span": "99999w"})


def test_a_watched_file_is_reported_once_per_content(tmp_path: Path) -> None:
    path = tmp_path / "f"
    watched = WatchedFile(path, 100)
    missing = watched.poll()
    assert isinstance(missing, Refusal)
    assert "does not exist" in missing.what
    assert watched.poll() is None, "still missing: said once"
    path.write_bytes(b"one")
    assert watched.poll() == b"one"
    assert watched.poll() is None
    path.touch()
    assert watched.poll() is None, "touched, same content"
    path.unlink()
    assert isinstance(watched.poll(), Refusal)
    path.write_bytes(b"one")
    assert watched.poll() == b"one", "back after an absence"


def test_a_symlink_swap_of_a_configmap_mount_is_seen(tmp_path: Path) -> None:
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "f").write_text(version)
    (tmp_path / "..data").symlink_to("v1")
    (tmp_path / "f").symlink_to("..data/f")
    watched = WatchedFile(tmp_path / "f", 100)
    assert watched.poll() == b"v1"
    (tmp_path / "..tmp").symlink_to("v2")
    (tmp_path / "..tmp").replace(tmp_path / "..data")
    assert watched.poll() == b"v2"


def test_a_file_beyond_its_bound_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 11)
    refused = read_bounded(tmp_path / "big", 10)
    assert isinstance(refused, Refusal)
    assert "larger than 10" in refused.what
    assert read_bounded(tmp_path / "big", 11) == b"x" * 11


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"metax", "metax"),
        (b"metax\n", "metax"),
        (base64.b64encode(b"metax\n"), "metax"),
        (base64.b64encode(b"metax\n") + b"\n", "metax"),
        (base64.encodebytes(b"x" * 120 + b"\n"), "x" * 120),
        (base64.encodebytes(b"x" * 120 + b"\n").replace(b"\n", b"\r\n"), "x" * 120),
        (base64.b64encode(b"metax"), "bWV0YXg="),
        (b"password", "password"),
        (b"abcd1234", "abcd1234"),
        ("päss wörd\n".encode(), "päss wörd"),
        (base64.b64encode(b"\n"), "Cg=="),
    ],
)
def test_a_credential_is_read_however_the_manual_made_it(
    tmp_path: Path, content: bytes, value: str
) -> None:
    """Only text that `echo … | base64` must have made is decoded; lookalikes stay as they are."""
    (tmp_path / "c").write_bytes(content)
    assert read_credential(tmp_path / "c") == value


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "empty"),
        (b"\n", "empty"),
        (b"\xff\xfe", "UTF-8"),
        (b"x" * (MAX_SECRET_BYTES + 1), "larger"),
    ],
)
def test_an_unusable_secret_is_refused_without_showing_it(
    tmp_path: Path, content: bytes, what: str
) -> None:
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(BadInputError, match=what) as error:
        read_secret(tmp_path / "s")
    assert "xxxx" not in str(error.value)


def test_a_missing_secret_names_its_path(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="nothere"):
        read_secret(tmp_path / "nothere")


@pytest.mark.parametrize("content", [b"abc.DEF-_~+/=", b"abc.DEF-_~+/=\n", b"abc.DEF-_~+/=\r\n"])
def test_a_token_stands_alone_on_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t").write_bytes(content)
    assert read_token(tmp_path / "t") == "abc.DEF-_~+/="


@pytest.mark.parametrize(
    "content",
    [
        b"# made in May\nS3KRET\n",
        b"S3KRET\nS3KRET\n",
        b"S3KRET\rS3KRET",
        b"S3\x01KRET",
        b"S3KRET ",
        "S3KRÉT".encode(),
        b"S3KRET" * 2000,
    ],
)
def test_what_no_header_can_carry_is_no_token(tmp_path: Path, content: bytes) -> None:
    """The refusal names the file and the next step, and shows nothing of what the file holds."""
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(BadInputError, match="one token") as error:
        read_token(tmp_path / "t")
    assert str(tmp_path / "t") in str(error.value)
    assert "one line" in str(error.value)
    assert "S3" not in str(error.value)
