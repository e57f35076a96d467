"""How the API server is reached: its address, its authority and the client's credentials."""

import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import structlog
from yarl import URL

from topo.kit.files import read_bounded
from topo.kit.tls import MAX_PEM_BYTES
from topo.model.errors import BadInputError, Refusal

RENEW_S = 60.0
"""Seconds after which a token file is read again. The kubelet renews a token at 80 % of its life,
which is ten minutes at the least."""

_log = structlog.get_logger(__name__)


class Credentials:
    """The value of the `Authorization` header, read again after `RENEW_S` and after a refusal.

    When reading fails, the last value stays: it may be valid for a while.
    """

    def __init__(
        self, read: Callable[[], Awaitable[str | None]], clock: Callable[[], float]
    ) -> None:
        self._read = read
        self._clock = clock
        self._value: str | None = None
        self._read_at_s: float | None = None

    async def header(self) -> str | None:
        """Return the value, None if no credentials are needed.

        Raises `BadInputError` if the first read fails.
        """
        now_s = self._clock()
        if self._read_at_s is not None and now_s - self._read_at_s < RENEW_S:
            return self._value
        try:
            self._value = await self._read()
        except BadInputError as error:
            if self._read_at_s is None:
                raise
            _log.warning("the credentials for Kubernetes are not renewed", why=str(error))
        self._read_at_s = now_s
        return self._value

    def invalidate(self) -> None:
        """Read the value again before the next call, because the API server refused it."""
        if self._read_at_s is not None:
            self._read_at_s = -RENEW_S + min(self._read_at_s, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A server, how it is verified, and the credentials. `tls` reads files: call it in a thread."""

    server: URL
    tls: Callable[[], ssl.SSLContext]
    credentials: Credentials
    server_name: str | None = None
    proxy: URL | None = None


def read_pem(path: Path, where: str = "") -> bytes:
    """Return the content of a file; `where` is the setting that names it. Raises
    `BadInputError`.
    """
    content = read_bounded(path, MAX_PEM_BYTES)
    if isinstance(content, Refusal):
        place = f"{where}: {content.where}" if where else content.where
        raise BadInputError(Refusal(content.what, place, content.fix))
    return content


def tls_context(
    authority: Callable[[], bytes | None],
    *,
    where: str,
    pair: Callable[[], tuple[bytes, bytes] | None] = lambda: None,
    verify: bool = True,
) -> ssl.SSLContext:
    """Return a context that trusts only the given authority, or the system's if none is given.

    Reads files. `where` names the setting of the certificates. Raises `BadInputError`.

    From Python 3.13 on, the default context also requires extensions that authorities of older
    clusters lack and other Kubernetes clients do not require. This context does not require them;
    chain and name are still verified.
    """
    pem = authority()
    try:
        if pem is not None and not pem.strip():
            raise ValueError("the authority is empty")  # noqa: TRY301 - else the system's are taken
        context = ssl.create_default_context(cadata=None if pem is None else pem.decode("ascii"))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if (given := pair()) is not None:
            _load_pair(context, given)
    except (ssl.SSLError, OSError, ValueError) as error:
        what = f"the certificates for Kubernetes cannot be used: {error}"
        fix = "give the cluster's authority as PEM, and a client's certificate with its key"
        raise BadInputError(Refusal(what, where, fix)) from error
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _load_pair(context: ssl.SSLContext, pair: tuple[bytes, bytes]) -> None:
    """Load a certificate and key through a private temporary directory: OpenSSL reads
    files only.
    """
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder) / "certificate", Path(folder) / "key"
        certificate.write_bytes(pair[0])
        key.write_bytes(pair[1])
        context.load_cert_chain(certificate, key, password="")
