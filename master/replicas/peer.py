"""Calls to the leader: one session, bounded calls, and the certificate that it must show."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import aiohttp

from topo.kit.files import read_bounded
from topo.kit.serving.body import bounded_bytes
from topo.kit.tls import MAX_PEM_BYTES
from topo.model.errors import TopoError

CONNECT_S = 2.0
_END = "-----END CERTIFICATE-----"


class NoAnswerError(TopoError):
    """The leader did not answer, or not as expected."""


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """A complete, unpacked answer of the leader."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class PeerMaster:
    """Another master. Where ports use TLS it must show the certificate that we show.

    All masters of one installation have the same; so no name and no authority has to be configured,
    and a server with another certificate, of whatever authority, is not the leader.
    """

    def __init__(self, certificate: Path | None = None, connections: int = 64) -> None:
        self._certificate = certificate
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Create the session; nothing is sent."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def ask(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        limit_bytes: int,
        timeout_s: float,
    ) -> PeerAnswer:
        """Return the answer, whatever its status. Raises `NoAnswerError`."""
        if self._session is None:
            raise NoAnswerError("this master is starting or ending")
        try:
            async with self._session.request(
                method,
                url,
                headers=headers,
                data=None if body is None else BytesIO(body),
                ssl=self._proof() if url.startswith("https:") else True,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S),
            ) as response:
                content = await bounded_bytes(response.content, limit_bytes)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise NoAnswerError(f"{type(error).__name__}: {error}"[:200]) from error
        if content is None:
            raise NoAnswerError(f"the answer has more than {limit_bytes} bytes")
        return PeerAnswer(response.status, response.headers, content)

    def _proof(self) -> aiohttp.Fingerprint:
        """Return the required certificate; read each time, as it is renewed in its file."""
        content = read_bounded(self._certificate, MAX_PEM_BYTES) if self._certificate else b""
        text = content.decode("ascii", "replace") if isinstance(content, bytes) else ""
        first, ended, _ = text.partition(_END)
        try:
            return aiohttp.Fingerprint(sha256(ssl.PEM_cert_to_DER_cert(first + ended)).digest())
        except ValueError:
            named = "--tls-cert or --extender-tls-cert"
            raise NoAnswerError(f"there is no certificate in the file of {named}") from None
