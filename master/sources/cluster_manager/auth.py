"""Credentials for the cluster manager: user and password, a fixed token, or a login and its token.

Credentials are read from their files each time they are used, so a rotated Secret works without a
restart. A token's life is counted on our monotonic clock from its arrival; the manager's clock does
not matter.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import aiohttp
import orjson
import structlog

from master.settings.cluster_manager import ClusterManagerSettings, PeerFlags
from master.sources.cluster_manager.http import (
    ManagerQuestion,
    Reply,
    Transport,
    TroubleError,
    TroubleKind,
)
from master.sources.cluster_manager.metrics import ClusterManagerMetrics
from topo.discovery.manager.rules import BasicAuth, LoginAuth, TokenAuth
from topo.discovery.manager.translation import Grant, map_login
from topo.kit.backoff import requested_wait_s
from topo.kit.secrets import as_token, read_credential
from topo.kit.threads import off_loop
from topo.model.errors import BadInputError, Refusal

RENEW_AT = 0.9
"""The share of its life after which a token is renewed, so that none ends during a request."""

_log = structlog.get_logger(__name__)


class Authentication(Protocol):
    """The credentials of requests; by default a refusal is final."""

    async def headers(self) -> Mapping[str, str]:
        """Return the headers of one request; may log in first. Raises `TroubleError`."""
        ...

    def refused(self) -> bool:
        """Handle a 401; return whether new headers could help."""
        return False

    def accepted(self) -> None:
        """Handle a success."""
        ...


class FixedAuthentication(Authentication):
    """Basic authentication or a fixed token; the files are read for every request."""

    def __init__(self, rule: BasicAuth | TokenAuth, settings: ClusterManagerSettings) -> None:
        self._rule = rule
        self._settings = settings

    async def headers(self) -> Mapping[str, str]:
        """Return the header of the current files."""
        rule = self._rule
        if isinstance(rule, BasicAuth):
            username = await credential(self._settings, "username", _without_colon)
            password = await credential(self._settings, "password")
            return {"Authorization": aiohttp.encode_basic_auth(username, password, "utf-8")}
        return {rule.header: rule.prefix + await credential(self._settings, rule.file, as_token)}

    def accepted(self) -> None:
        """Do nothing."""


@dataclass(slots=True, eq=False, repr=False)
class LoginAuthentication(Authentication):
    """A token from a login, renewed before it ends and when it is refused.

    Only a refusal of a token that was accepted causes a login at once, and only if the last login
    had another cause: a manager that refuses every token at one path and accepts it at another gets
    one login per `refused_login_wait_s`, as does one that refuses the login itself.
    """

    rule: LoginAuth
    settings: ClusterManagerSettings
    transport: Transport
    metrics: ClusterManagerMetrics
    _: KW_ONLY
    clock: Callable[[], float]
    _grant: Grant | None = None
    _renew_at_s: float = 0.0
    _after_refusal: bool = False
    _not_before_s: float = 0.0
    _failure: TroubleError | None = None

    async def headers(self) -> Mapping[str, str]:
        """Return the token's header, after a login where no token is left or it is about to end."""
        if self._grant is not None and self.clock() >= self._renew_at_s:
            self._grant, self._after_refusal = None, False
        if self._grant is None:
            self._grant = await self._login()
        return {self.rule.header: self.rule.prefix + self._grant.token}

    def refused(self) -> bool:
        """Drop the token where another login may be made for it, and keep it otherwise."""
        if self.clock() < self._not_before_s:
            return False
        self._grant, self._after_refusal = None, True
        return True

    def accepted(self) -> None:
        """Mark the token as good; unless a refusal caused it, the next refusal causes a login."""
        if not self._after_refusal:
            self._not_before_s = 0.0

    async def _login(self) -> Grant:
        left_s = self._not_before_s - self.clock()
        if self._failure is not None and left_s > 0:
            raise TroubleError(self._failure.kind, self._failure.refusal, left_s)
        try:
            grant = await self._ask()
        except TroubleError as error:
            self._failure = error
            self._not_before_s = self.clock() + requested_wait_s(error)
            raise
        now_s, life_s = self.clock(), grant.expires_in_s
        self._failure = None
        self._not_before_s = now_s + self.settings.refused_login_wait_s
        self._renew_at_s = now_s + (float("inf") if life_s is None else RENEW_AT * life_s)
        _log.info("logged in to the cluster manager", expires_in_s=life_s)
        return grant

    async def _ask(self) -> Grant:
        rule = self.rule
        body = {
            rule.username_field: await credential(self.settings, "username"),
            rule.password_field: await credential(self.settings, "password"),
        }
        try:
            question = ManagerQuestion(path=rule.path, method="POST", body=body)
            grant = self._granted(await self.transport.ask(question))
        except TroubleError as error:
            self.metrics.logged_in(error.kind)
            raise
        self.metrics.logged_in("ok")
        return grant

    def _granted(self, reply: Reply) -> Grant:
        where = f"POST {self.rule.path}"
        if reply.status in (401, 403):
            raise TroubleError(
                TroubleKind.CREDENTIALS,
                Refusal(
                    f"the manager refuses our user name or password ({reply.status})",
                    where,
                    f"correct the files in {self.settings.credentials_dir}; they are read again",
                ),
                self.settings.refused_login_wait_s,
            )
        if reply.status != 200:
            raise status_trouble(reply, where)
        document = decoded(reply.body, where)
        grant = map_login(self.rule, document)
        if isinstance(grant, Refusal):
            raise TroubleError(TroubleKind.CONTENT, grant)
        return grant


def status_trouble(
    reply: Reply,
    where: str,
    flags: PeerFlags = PeerFlags(),  # noqa: B008 - frozen
) -> TroubleError:
    """Return the error of a status that is not 200."""
    if reply.status in (429, 503):
        refusal = Refusal(f"the manager is busy ({reply.status})", where, "we come back later")
        return TroubleError(TroubleKind.BUSY, refusal, reply.retry_after_s)
    fix = flags.content if reply.status == 404 else "look at its log"
    refusal = Refusal(f"the manager answers {reply.status}", where, fix)
    return TroubleError(TroubleKind.STATUS, refusal, reply.retry_after_s)


def decoded(body: bytes, where: str, flags: PeerFlags = PeerFlags()) -> object:  # noqa: B008 - frozen
    """Return the JSON of a body. Raises `TroubleError` without its content."""
    try:
        document: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise TroubleError(
            TroubleKind.MALFORMED,
            Refusal(
                f"the answer is not JSON: {error.msg} at byte {error.pos}",
                where,
                flags.content,
            ),
        ) from None
    return document


def _without_colon(username: str, path: Path) -> str:
    """Return a user name that basic authentication can carry: a colon would start the password."""
    if ":" not in username:
        return username
    what = "the user name has a colon, which basic authentication cannot carry (RFC 7617)"
    raise BadInputError(Refusal(what, str(path), "write a user name without a colon into it"))


async def credential(
    settings: ClusterManagerSettings,
    name: str,
    checked: Callable[[str, Path], str] = lambda text, _: text,
) -> str:
    """Return the text of a file of credentials. Raises `TroubleError`, which shows none of it."""
    path = settings.credentials_dir / name
    try:
        return checked(await off_loop(partial(read_credential, path)), path)
    except BadInputError as error:
        raise TroubleError(TroubleKind.CREDENTIALS, error.refusal) from None
