"""Bearer tokens: whom a request speaks for. The time of a look-up tells nothing about a token."""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from topo.model.errors import Refusal
from topo.model.ids import NodeName

MAX_TOKEN_CHARS = 8192
_COMMENT = re.compile(r"(?:^|\s)#.*")
"""At the begin of a line or after a blank: inside a word `#` is part of a token."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a token stands for; `node=None` is the shared token, good for every node."""

    node: NodeName | None = None

    def may_report(self, node: NodeName) -> bool:
        """Whether a report for this node may carry this token."""
        return self.node is None or self.node == node


def bearer(headers: Mapping[str, str]) -> str | None:
    """The token of an `Authorization: Bearer` header (RFC 6750), None where there is none."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN_CHARS:
        return None
    return token


@dataclass(frozen=True, slots=True)
class WorkerTokens:
    """Tokens of a file, looked up by a keyed digest.

    The digest's key is random and fresh, so neither the time of a look-up nor the order of the
    table tells anything about a token; a look-up is O(1) at any number of nodes.
    """

    _identities: Mapping[bytes, Identity] = field(repr=False)
    _key: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> "WorkerTokens | Refusal":
        """Tokens from lines `<token>` (any node) or `<node-name> <token>`; comments as `# …`."""
        key = secrets.token_bytes(32)
        identities: dict[bytes, Identity] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = _COMMENT.sub("", line).split()
            if not words:
                continue
            where = f"line {number}"
            if wrong := _no_token(words):
                return Refusal(wrong, where, "write `<token>` or `<node-name> <token>`")
            identity = Identity(NodeName(words[0]) if len(words) == 2 else None)
            if identities.setdefault(_digest(words[-1], key), identity) != identity:
                what = "the token is given twice, for two holders"
                return Refusal(what, where, "give each node a token of its own")
        if not identities:
            return Refusal("there is no token in the file", "line 1", "write one token per line")
        return cls(identities, key)

    def identify(self, token: str) -> Identity | None:
        """Whom the token stands for; None for a token that is in no line."""
        return self._identities.get(_digest(token, self._key))


def _no_token(words: list[str]) -> str:
    """Why the words of a line are none of the two forms; empty where they are."""
    if len(words) > 2:
        return f"{len(words)} words where a token is expected"
    if (size := len(words[-1])) > MAX_TOKEN_CHARS:
        return f"a token of {size} characters (limit {MAX_TOKEN_CHARS})"
    return ""


def _digest(token: str, key: bytes) -> bytes:
    return hashlib.blake2b(token.encode("utf-8", "surrogatepass"), key=key, digest_size=32).digest()
