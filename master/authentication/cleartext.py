"""Warnings about secrets that others can read on the network: each kind is logged once.

They appear at `/v1/topology` for the life of the process: a reader has the secret, whatever is sent
afterwards.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from aiohttp import web
from yarl import URL

from master.settings import MasterSettings
from topo.kit.addresses import Network, is_loopback, is_within
from topo.model.conditions.master import MasterCondition
from topo.model.rest.topology import WarningDocument

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TokenKind:
    """The tokens that a port accepts, and the warning about those sent over plain HTTP."""

    code: MasterCondition
    whose: str


WORKER_TOKEN = TokenKind(MasterCondition.WORKER_TOKEN_IN_CLEAR, "a worker's token")
API_TOKEN = TokenKind(MasterCondition.API_TOKEN_IN_CLEAR, "an API token")


@dataclass(slots=True)
class CleartextSecrets:
    """Secrets that were accepted or sent beyond this machine where others can read them.

    `proxies` end TLS before this master, so what they forward was not in clear text.
    """

    proxies: tuple[Network, ...] = ()
    _warnings: dict[str, WarningDocument] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[WarningDocument, ...]:
        """One warning for each kind of secret, in the order of their detection."""
        return tuple(self._warnings.values())

    def accepting(self, kind: TokenKind) -> Callable[[web.Request], None]:
        """Return the function to call with each request whose token was accepted. O(1)."""

        def accepted(request: web.Request) -> None:
            if kind.code in self._warnings or request.secure:
                return
            peer = request.remote
            if peer and not is_loopback(peer) and not is_within(peer, self.proxies):
                self._warn(kind.code, f"{kind.whose} came from {peer} over plain HTTP")

        return accepted

    def judge_manager(self, settings: MasterSettings) -> None:
        """Check how user name and password reach the cluster manager."""
        if not settings.asks_manager:
            return
        url = URL(settings.cluster_manager_address)
        if is_loopback(url.host or ""):
            return
        sent = f"user name and password are sent to {url.origin()}"
        if url.scheme == "http":
            self._warn(MasterCondition.MANAGER_LOGIN_IN_CLEAR, f"{sent} over plain HTTP")
        elif settings.cluster_manager_insecure:
            text = f"{sent}, whose certificate is not verified"
            self._warn(MasterCondition.MANAGER_UNVERIFIED, text)

    def _warn(self, code: MasterCondition, text: str) -> None:
        self._warnings[code] = WarningDocument.of(code, text)
        _log.warning("a secret can be read on the network", code=code, what=text, fix=code.step)
