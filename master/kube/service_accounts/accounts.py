"""Tokens of service accounts: their claims, their review, and the required account.

Pure. Claims prove nothing; they only save a review that would fail anyway. Formats: RFC 7519
(claims), RFC 7515 2 (parts without padding); Kubernetes v1.36, "Managing Service Accounts" and
`TokenReview` of `authentication.k8s.io/v1`.
"""

import base64
import re
from dataclasses import dataclass, field
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, Field, StrictBool

from master.kube.decoding import decode, malformed
from master.kube.schema.slim import slim
from topo.model.conditions.sources import ReportCondition
from topo.model.errors import Refusal
from topo.model.ids import NodeName

MAX_SHOWN_CHARS = 160
MAX_ANSWER_BYTES = 64 * 1024
"""A review repeats the token, of at most 8000 characters, and names the user's groups."""
_WHERE = "Authorization"
_JWS = re.compile(r"[\w-]+\.([\w-]+)\.[\w-]+", re.ASCII)
"""Three parts in base64url without padding. Source: RFC 7515, 7.1."""
_ACCOUNT = re.compile(
    r"system:serviceaccount:(?P<account>[a-z0-9.-]{1,253}:[a-z0-9.-]{1,253})", re.ASCII
)
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Denied:
    """Why a token is not accepted. `retry_after_s` is set if the token may not be the cause."""

    code: ReportCondition
    refusal: Refusal
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """The account that a token authenticates: `namespace:account`, and the node of its pod."""

    name: str
    audiences: tuple[str, ...]
    node: NodeName | None = None


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a token, not verified."""

    account: Account
    ends_unix_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The required account, the required audience, and whether a token must be bound to a node."""

    account: str
    audience: str
    on_node: bool = False

    def denial(self, account: Account) -> Denied | None:
        """Return why this account is not accepted, None if it is."""
        if self.audience not in account.audiences:
            theirs = ", ".join(map(printable, account.audiences[:3])) or "the API server"
            what = f"the token is for {theirs}, and here it has to be for {self.audience}"
            fix = f"project a token with audience {self.audience}"
            return _denied(ReportCondition.WRONG_AUDIENCE, what, fix)
        if account.name != self.account:
            what = f"the token is of service account {account.name}, not of {self.account}"
            return _denied(ReportCondition.WRONG_ACCOUNT, what, f"run the pod as {self.account}")
        if self.on_node and account.node is None:
            what = "the token does not say on which node its pod runs"
            fix = "Kubernetes 1.30 and later say it; else use tokens of --worker-token-file"
            return _denied(ReportCondition.TOKEN_WITHOUT_NODE, what, fix)
        return None


def printable(text: str) -> str:
    """Return a peer's text as at most `MAX_SHOWN_CHARS` printable ASCII characters."""
    return "".join(c if " " <= c <= "~" else "?" for c in text[:MAX_SHOWN_CHARS])


def _denied(code: ReportCondition, what: str, fix: str) -> Denied:
    return Denied(code, Refusal(what, _WHERE, fix))


_Name = Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]


class _Object(BaseModel):
    name: _Name


class _Bound(BaseModel):
    node: _Object | None = None


class _TokenClaims(BaseModel):
    aud: tuple[str, ...] | str
    exp: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    sub: str
    bound: Annotated[_Bound, Field(alias="kubernetes.io")] = _Bound()


def claims_of(token: str) -> Claims | Denied:
    """Return the claims of a service account's token. O(length)."""
    not_ours = "the token is in no file of tokens, and is none of Kubernetes"
    if (parts := _JWS.fullmatch(token)) is None:
        return _nobodys(not_ours)
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        found = _TokenClaims.model_validate_json(base64.b64decode(padded, b"-_", validate=True))
    except ValueError:
        return _nobodys(not_ours)
    user = _ACCOUNT.fullmatch(found.sub)
    if user is None:
        return _nobodys("the token is of no service account")
    audiences = (found.aud,) if isinstance(found.aud, str) else found.aud
    node = found.bound.node
    account = Account(user[1], audiences, NodeName(node.name) if node is not None else None)
    return Claims(account, found.exp)


def _nobodys(what: str) -> Denied:
    fix = "project a token of the pod's service account, or use one of --worker-token-file"
    return _denied(ReportCondition.NO_ACCOUNT, what, fix)


@slim
class _Extra:
    nodes: tuple[_Name, ...] = Field(
        (), validation_alias="authentication.kubernetes.io/node-name", max_length=1
    )


@slim
class _User:
    username: str = ""
    extra: _Extra = field(default_factory=_Extra)


@slim
class _ReviewStatus:
    authenticated: StrictBool = False
    audiences: tuple[str, ...] = ()
    error: str = ""
    user: _User = field(default_factory=_User)


@slim
class _Review:
    kind: Literal["TokenReview"]
    status: _ReviewStatus


def review_body(token: str, audience: str) -> bytes:
    """Return the body of the `TokenReview` of a token."""
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    return orjson.dumps({**kind, "spec": {"token": token, "audiences": [audience]}})


def read_review(answer: bytes) -> Account | Denied:
    """Return the account of a `TokenReview`. Raises `KubeError` for another answer.

    A server that does not check audiences names none: the token then is for none of ours.
    """
    if len(answer) > MAX_ANSWER_BYTES:
        raise malformed(f"a TokenReview of {len(answer)} bytes (limit {MAX_ANSWER_BYTES})")
    status = decode(_Review, answer).status
    if not status.authenticated:
        why = f": {printable(status.error)}" if status.error else ""
        fix = (
            "has it expired, is its pod gone, or is it of another cluster? A new pod has a new one"
        )
        return _denied(ReportCondition.TOKEN_REFUSED, f"Kubernetes refuses the token{why}", fix)
    user = _ACCOUNT.fullmatch(status.user.username)
    if user is None:
        return _nobodys("Kubernetes knows the token, and it is of no service account")
    nodes = status.user.extra.nodes
    return Account(user[1], status.audiences, NodeName(nodes[0]) if nodes else None)
