"""What the test run knows of secrets."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from topo.discovery.manager.translation import Grant
from topo.kit import files
from topo.kit import secrets as kit_secrets
from topo.kit import settings as kit_settings
from topo.kit.tokens import WorkerTokens
from topo.model.errors import Refusal

HEARD: set[str] = set()
"""Every secret that this process has read, or was granted at a login."""
_IN_ADDRESS = re.compile(r"://[^/?#]*:([^/?#]+)@|[?&](?:sig|signature|token|key)=([^&#]+)")
"""A password or a signed part in an address that somebody gave by mistake."""
SHORTEST = 8
"""Shorter ones are user names and the passwords of examples; any text contains them."""


def leaks(text: str, known: Iterable[str]) -> list[str]:
    """The secrets that stand in a text, each cut to its beginning."""
    return sorted(f"{secret[:4]}…" for secret in known if secret in text)


def hear(*words: str) -> None:
    """Remembers secrets."""
    HEARD.update(w for w in words if len(w) >= SHORTEST)


def listen() -> None:
    """Notes every secret on its way in."""
    read_bounded = files.read_bounded
    parse = WorkerTokens.parse
    granted = Grant.__init__

    def noted(path: Path, limit_bytes: int) -> bytes | Refusal:
        content = read_bounded(path, limit_bytes)
        if isinstance(content, bytes):
            hear(content.decode("utf-8", "replace").strip())
        return content

    def parsed(_cls: type[WorkerTokens], text: str) -> Any:
        hear(*(line.split()[-1] for line in text.splitlines() if line.split()))
        return parse(text)

    def noted_grant(self: Grant, token: str, expires_in_s: float | None) -> None:
        hear(token)
        granted(self, token, expires_in_s)

    read = kit_settings.read

    def noted_read(cls: Any, argv: Sequence[str]) -> Any:
        hear(*(word for found in _IN_ADDRESS.findall(" ".join(argv)) for word in found))
        return read(cls, argv)

    patch = pytest.MonkeyPatch()
    patch.setattr(kit_settings, "read", noted_read)
    patch.setattr(kit_secrets, "read_bounded", noted)
    patch.setattr(Grant, "__init__", noted_grant)
    patch.setattr(WorkerTokens, "parse", classmethod(parsed))
