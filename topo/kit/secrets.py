"""Secrets from files. Flags contain none, because every user of the machine can read flags."""

import base64
import binascii
import re
from pathlib import Path

from topo.kit.files import read_bounded
from topo.model.errors import BadInputError, Refusal
from topo.model.limits import MAX_TOKEN_CHARS

MAX_SECRET_BYTES = 64 * 1024
"""A Kubernetes Secret is at most 1 MiB; tokens and passwords are a few kB."""

_TOKEN = re.compile(rf"[!-~]{{1,{MAX_TOKEN_CHARS}}}")
"""What a header can carry as one word; RFC 6750 2.1 allows less, but issuers do not keep to it."""


def read_secret(path: Path) -> str:
    """Return the text of a file without the line end that editors and `echo` add.

    Raises `BadInputError` if the file is absent, unreadable, empty, too large or not UTF-8.
    """
    content = read_bounded(path, MAX_SECRET_BYTES)
    if isinstance(content, Refusal):
        raise BadInputError(content)
    try:
        text = content.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        what = "the secret is not UTF-8 text"
        raise BadInputError(Refusal(what, str(path), "write it as plain text")) from None
    if not text:
        raise BadInputError(Refusal("the secret is empty", str(path), "write the value into it"))
    return text


def read_token(path: Path) -> str:
    """Return the bearer token of a file that holds nothing else.

    Raises `BadInputError`, which shows nothing of the file, if `read_secret` does and for text that
    a header cannot contain: a second line, a comment, blanks, accents.
    """
    return as_token(read_secret(path), path)


def as_token(text: str, path: Path) -> str:
    """Return the text if it is one token read from `path`. Raises like `read_token`."""
    if _TOKEN.fullmatch(text):
        return text
    what = "the file holds something else than one token"
    fix = "write the token alone into it, on one line, without comments or blanks"
    raise BadInputError(Refusal(what, str(path), fix))


def read_credential(path: Path) -> str:
    """Return a user name or password in a form of the vendor's manual.

    The manual tells people to put `echo value | base64` into the chart, and Kubernetes may encode
    that once more. So the file may hold the value, the value with a newline, or the base64 of
    either. Text is decoded only if the result *ends with the newline of `echo`*: a password that
    happens to be valid base64 is taken as it is. Source: vendor manual, values
    `topoDiscovery.switchbox.clusterManagerUser` and `.clusterManagerPassword`.
    """
    text = read_secret(path)
    decoded = _without_base64(text)
    return text if decoded is None else decoded


def _without_base64(text: str) -> str | None:
    try:
        # `base64` wraps its lines after 76 characters.
        decoded = base64.b64decode("".join(text.split()), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    value = decoded.rstrip("\r\n")
    if value == decoded or not value or not value.isprintable():
        return None
    return value
