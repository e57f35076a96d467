"""Bearer tokens and the nodes they stand for, looked up in constant time."""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.limits import MAX_TOKEN_CHARS

_COMMENT = re.compile(r"(?:^|\s)#.*")
"""At the begin of a line or after a blank: inside a word `#` is part of a token."""
_LINE_END = re.compile(r"\r\n|\n|\r")
"""What editors end lines with. `str.splitlines` also cuts a token in two at a U+0085."""
_PRINTABLE = re.compile(r"[!-~]+")
_FIX = "write `<token>` or `<node-name> <token>`"


@dataclass(frozen=True, slots=True)
class Identity:
    """The node that a token stands for; `node=None` is the shared token, valid for every node."""

    node: NodeName | None = None

    def may_report(self, node: NodeName) -> bool:
        """Return whether a report for this node may carry this token."""
        return self.node is None or self.node == node


def bearer(headers: Mapping[str, str]) -> str | None:
    """Return the token of an `Authorization: Bearer` header (RFC 6750), or None."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN_CHARS:
        return None
    return token


@dataclass(frozen=True, slots=True)
class WorkerTokens:
    """Tokens of a file, looked up by a keyed digest; `refused` are the invalid lines.

    The key of the digest is random for each file, so neither the time of a look-up nor the order
    of the table reveals anything about a token. A look-up is O(1).
    """

    _identities: Mapping[bytes, Identity] = field(repr=False)
    _key: bytes = field(repr=False)
    refused: tuple[Refusal, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "WorkerTokens":
        """Parse lines `<token>` (any node) or `<node-name> <token>`; comments are `# …`.

        A line of another form is invalid, and so is a token of two nodes. A refusal names the lines
        and the reason, and shows nothing of them.
        """
        key = secrets.token_bytes(32)
        wrong: dict[int, Refusal] = {}
        lines: dict[bytes, list[tuple[int, Identity]]] = {}
        for number, line in enumerate(_LINE_END.split(text), 1):
            words = _COMMENT.sub("", line).split()
            if words and (why := _no_token(words)):
                wrong[number] = Refusal(why, f"line {number}", _FIX)
            elif words:
                identity = Identity(NodeName(words[0]) if len(words) == 2 else None)
                lines.setdefault(keyed_digest(words[-1], key), []).append((number, identity))
        identities: dict[bytes, Identity] = {}
        for digest, given in lines.items():
            holders = {identity for _, identity in given}
            if len(holders) == 1:
                identities[digest] = given[0][1]
            else:
                wrong[given[0][0]] = _shared(len(holders), [number for number, _ in given])
        return cls(identities, key, tuple(wrong[number] for number in sorted(wrong)))

    def __len__(self) -> int:
        return len(self._identities)

    def identify(self, token: str) -> Identity | None:
        """Return the identity of the token, or None if no line has it."""
        return self._identities.get(keyed_digest(token, self._key))


def _shared(holders: int, numbers: list[int]) -> Refusal:
    what = f"one token for {holders} holders, so for none"
    fix = "give each a token of its own"
    return Refusal(what, f"lines {', '.join(map(str, numbers))}", fix)


def _no_token(words: list[str]) -> str:
    """Return why the words of a line fit neither form; empty if they do."""
    if len(words) > 2:
        return f"{len(words)} words where a token is expected"
    if (size := len(words[-1])) > MAX_TOKEN_CHARS:
        return f"a token of {size} characters (limit {MAX_TOKEN_CHARS})"
    if not _PRINTABLE.fullmatch(words[-1]):
        return "a token with a character that no header carries"
    return ""


def keyed_digest(token: str, key: bytes) -> bytes:
    """Return the digest by which a token is looked up; without the key it reveals nothing."""
    return hashlib.blake2b(token.encode("utf-8", "surrogatepass"), key=key, digest_size=32).digest()
