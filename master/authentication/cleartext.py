"""Secrets that anybody on the network can read: each kind is logged once, and told to the doctor.

The warnings are those of `/v1/topology`. They last as long as the process: whoever listened has the
secret, whatever is sent afterwards.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from aiohttp import web
from yarl import URL

from master.settings import MasterSettings
from topo.discovery.sources import MANAGED
from topo.kit.addresses import Network, is_loopback, is_within
from topo.model.rest.topology import WarningDocument

_NAME_PROXY = "; where a proxy ends TLS before it, name that in --tls-proxies"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TokenKind:
    """Whose tokens a port accepts: the code of the warning, how it is told, and the next step."""

    code: str
    whose: str
    fix: str


WORKER_TOKEN = TokenKind(
    "worker-token-in-clear",
    "a worker's token",
    "give the master --tls-cert and --tls-key, and its workers --server-tls, then new tokens"
    + _NAME_PROXY,
)
API_TOKEN = TokenKind(
    "api-token-in-clear",
    "an API token",
    "give the master --tls-cert and --tls-key with --tls-scope=all, then a new token" + _NAME_PROXY,
)


@dataclass(slots=True)
class CleartextSecrets:
    """Which secrets are accepted or sent beyond this machine where others can read them.

    `proxies` end TLS before this master, so what they pass on was not in clear text.
    """

    proxies: tuple[Network, ...] = ()
    _warnings: dict[str, WarningDocument] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[WarningDocument, ...]:
        """One for each kind of secret, in the order in which they were seen."""
        return tuple(self._warnings.values())

    def accepting(self, kind: TokenKind) -> Callable[[web.Request], None]:
        """What to call with each request whose token was accepted. O(1)."""

        def accepted(request: web.Request) -> None:
            if kind.code in self._warnings or request.secure:
                return
            peer = request.remote
            if peer and not is_loopback(peer) and not is_within(peer, self.proxies):
                self._warn(kind.code, f"{kind.whose} came from {peer} over plain HTTP", kind.fix)

        return accepted

    def judge_manager(self, settings: MasterSettings) -> None:
        """Looks at the way that user name and password take to the cluster manager."""
        if not MANAGED.is_used_in(settings.mode):
            return
        url = URL(settings.cluster_manager_address)
        if is_loopback(url.host or ""):
            return
        sent = f"user name and password are sent to {url.origin()}"
        if url.scheme == "http":
            fix = "give an https:// address, and leave --cluster-manager-allow-http away"
            self._warn("manager-login-in-clear", f"{sent} over plain HTTP", fix)
        elif settings.cluster_manager_insecure:
            fix = "give its authority as --cluster-manager-ca-file instead of "
            fix += "--cluster-manager-insecure"
            self._warn("manager-unverified", f"{sent}, whose certificate is not verified", fix)

    def _warn(self, code: str, text: str, fix: str) -> None:
        self._warnings[code] = WarningDocument(code=code, text=text, fix=fix)
        _log.warning("a secret can be read on the network", code=code, what=text, fix=fix)
