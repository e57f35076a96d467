"""TLS contexts with the defaults of the standard library, and which way needs none."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

from topo.model.errors import BadInputError, Refusal

_PROBE_S = 2.0


def client_context(ca_file: Path | None, *, verify: bool = True) -> ssl.SSLContext:
    """A context that verifies the peer against `ca_file`, or the system's authorities without one.

    `verify=False` is for those who said so by a flag. Raises `BadInputError` for an unusable file.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            what = f"the CA file cannot be used: {error}"
            raise BadInputError(Refusal(what, str(ca_file), "give a PEM certificate")) from error
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def server_context(cert: Path, key: Path) -> ssl.SSLContext:
    """A server's context; raises `BadInputError` when the two files are not a matching pair."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    reload_certificate(context, cert, key)
    return context


def reload_certificate(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    """Loads the pair into a context in use: connections made from now on see the new one.

    Raises `BadInputError`; the context then keeps the pair it had.
    """
    try:
        # OpenSSL replaces the certificate before it checks the key, so a mismatch must be found
        # on a context that serves nobody.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        what = f"the certificate and key cannot be used: {error}"
        fix = "give a PEM certificate chain and its unencrypted private key"
        raise BadInputError(Refusal(what, f"{cert}, {key}", fix)) from error


async def speaks_tls(host: str, port: int) -> bool:
    """Whether a TLS handshake succeeds there: what tells a plain request from a server that died.

    Nothing is verified, and nothing is sent after it. Takes at most `_PROBE_S`.
    """
    anybody = client_context(None, verify=False)
    with suppress(OSError):  # a refused connection, a failed handshake, a time that is over
        async with asyncio.timeout(_PROBE_S):
            _, writer = await asyncio.open_connection(host, port, ssl=anybody)
            writer.transport.abort()
        return True
    return False
