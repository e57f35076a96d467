"""Which clients the extender answers, where the operator gives an authority of clients.

A scheduler shows a certificate of that authority. Another master, which forwards a question, sends
the token by which masters know each other: it need have no certificate that is good for clients.
The extender reads nothing of a body before that.
"""

import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import structlog
from aiohttp import web

from topo.kit.serving.problem import problem

_log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class Callers:
    """The clients that may ask. `names` is empty where each of the authority may.

    `context` returns the TLS context of new connections; `is_master` tells whether a request is
    another master's.
    """

    context: Callable[[], ssl.SSLContext]
    names: frozenset[str]
    is_master: Callable[[web.Request], Awaitable[bool]]
    _told: set[HTTPStatus] = field(default_factory=set)

    async def refusal(self, request: web.Request) -> web.Response | None:
        """Return the refusal of a request, None where its sender may ask."""
        if "Authorization" in request.headers:
            if await self.is_master(request):
                return None
            return self._refused(
                HTTPStatus.UNAUTHORIZED,
                "the token is no master's",
                "schedulers show a certificate: leave the header away",
            )
        shown = self._certificate(request)
        if not shown:
            return self._refused(
                HTTPStatus.UNAUTHORIZED,
                "no certificate of a client was shown, or its authority changed since",
                "give kube-scheduler tlsConfig.certFile and keyFile, signed by an authority of "
                "--extender-client-ca",
            )
        names = set(_names(shown))
        if self.names and self.names.isdisjoint(names):
            return self._refused(
                HTTPStatus.FORBIDDEN,
                f"the certificate is that of {', '.join(sorted(names)) or 'nobody'}",
                "add its name to --extender-client-names",
            )
        return None

    def _certificate(self, request: web.Request) -> Mapping[str, Any]:
        """Return the certificate that was verified by today's authorities; empty without one."""
        transport = request.transport
        if transport is None:
            return {}
        connection = transport.get_extra_info("ssl_object")
        if connection is None or connection.context is not self.context():
            return {}
        return transport.get_extra_info("peercert") or {}

    def _refused(self, status: HTTPStatus, what: str, fix: str) -> web.Response:
        if status not in self._told:
            _log.warning("a question of a scheduler is refused", what=what, fix=fix)
        self._told.add(status)
        answer = problem(status, what, fix=fix)
        answer.force_close()  # the next connection may be made with another certificate
        return answer


def _names(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Yield the common names and DNS names of a certificate as `ssl` shows it."""
    for attributes in certificate.get("subject", ()):
        yield from (value for name, value in attributes if name == "commonName")
    yield from (value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS")
