"""TLS contexts with the defaults of the standard library, and a probe for TLS."""

import asyncio
import os
import ssl
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from topo.kit.files import call_unless_silent, read_bounded
from topo.model.errors import BadInputError, Refusal

MAX_PEM_BYTES = 4 << 20
"""The authorities of a whole system are about 250 kB."""
_PROBE_S = 2.0


def client_context(ca_file: Path | None, *, verify: bool = True) -> ssl.SSLContext:
    """Return a context that verifies the peer against `ca_file`, or the system's authorities.

    `verify=False` is only for users who set a flag. Raises `BadInputError` for an unusable file.
    Blocks for up to `topo.kit.files.SILENCE_S` per file, so it must not run on the event loop.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is not None:
        load = partial(context.load_verify_locations, cafile=ca_file)
        _load("the CA file", [ca_file], load, "give a PEM certificate")
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def empty_server_context() -> ssl.SSLContext:
    """Return a server context without a certificate: handshakes fail until one is loaded."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def server_context(cert: Path, key: Path) -> ssl.SSLContext:
    """Return a server context. Raises `BadInputError` if the two files are not a matching pair."""
    context = empty_server_context()
    reload_certificate(context, cert, key)
    return context


def reload_certificate(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    """Load the pair into a context in use, for connections from now on.

    Raises `BadInputError`; the context then keeps its former pair.
    """
    fix = "give a PEM certificate chain and its unencrypted private key"
    # OpenSSL replaces the certificate before it checks the key, so a mismatch must be found on a
    # context that serves nobody. Without a password it would ask the terminal for one.
    for each in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context):
        load = partial(each.load_cert_chain, cert, key, password="")
        _load("the certificate and key", [cert, key], load, fix)


def verify_clients(context: ssl.SSLContext, ca_file: Path) -> bytes:
    """Let a server context verify the certificates that clients show; return the authorities.

    A client that shows none gets a connection, so that it can be told what it lacks; one with a
    certificate of another authority gets none. Raises `BadInputError` for an unusable file.
    """
    what, fix = "the file of the clients' authorities", "give PEM certificates"
    content = read_bounded(ca_file, MAX_PEM_BYTES)
    if isinstance(content, Refusal):
        raise _unusable(what, content)
    try:
        context.load_verify_locations(cadata=content.decode("ascii", "replace"))
    except ssl.SSLError as error:
        raise _unusable(what, Refusal(str(error), str(ca_file), fix)) from error
    context.verify_mode = ssl.CERT_OPTIONAL
    return content


def load_pair(context: ssl.SSLContext, chain: bytes, key: bytes) -> None:
    """Load a PEM pair from memory into a context in use, without writing it to a disk.

    Raises `BadInputError`; the context then keeps its former pair.
    """
    with ExitStack() as stack:
        paths = []
        for name, content in (("certificate", chain), ("key", key)):
            number = os.memfd_create(name)
            stack.callback(os.close, number)
            os.write(number, content)
            paths.append(Path(f"/proc/self/fd/{number}"))
        reload_certificate(context, paths[0], paths[1])


def _load(what: str, paths: Sequence[Path], load: Callable[[], None], fix: str) -> None:
    """Let OpenSSL read the files after a check that they are files. Raises `BadInputError`."""
    where = ", ".join(map(str, paths))
    for path in paths:
        if isinstance(content := read_bounded(path, MAX_PEM_BYTES), Refusal):
            raise _unusable(what, content)
    try:
        silent = call_unless_silent(paths[0], lambda _: load())
    except (OSError, ssl.SSLError) as error:
        raise _unusable(what, Refusal(str(error), where, fix)) from error
    if isinstance(silent, Refusal):
        raise _unusable(what, silent)


def _unusable(what: str, why: Refusal) -> BadInputError:
    return BadInputError(Refusal(f"{what} cannot be used: {why.what}", why.where, why.fix))


async def speaks_tls(host: str, port: int) -> bool:
    """Return whether a TLS handshake succeeds there.

    Distinguishes a server that expects TLS from one that is down. Verifies nothing, sends nothing
    after the handshake, takes at most `_PROBE_S`.
    """
    anybody = client_context(None, verify=False)
    with suppress(OSError):  # a refused connection, a failed handshake, a time that is over
        async with asyncio.timeout(_PROBE_S):
            _, writer = await asyncio.open_connection(host, port, ssl=anybody)
            writer.transport.abort()
        return True
    return False
