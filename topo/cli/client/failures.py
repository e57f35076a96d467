"""Failed calls to the master as errors in words, with the next step."""

import os
import ssl

import aiohttp
from yarl import URL

from topo.cli.client.decoding import problem_of
from topo.cli.client.option_names import in_options
from topo.cli.exit_codes import CliError, Exit
from topo.kit.tls import speaks_tls
from topo.model.errors import Refusal

_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "record layer failure")
"""What OpenSSL finds where no handshake comes back: the words of 3.0, and of 3.2 on."""
_FIX_IS_OURS = (401,)
"""The fix of the master speaks of a header, its caller gave a file."""
_NO_MASTER = "that is no topo-master: give the address of its API (port 9001) with --master"
_FIXES = {
    401: "give a valid token with --token-file",
    403: "ask with another token: --token-file",
    404: "`topo tree` lists the names there are",
    409: "ask again: something else came first",
    410: "the master keeps a limited history; `topo history` shows how far back",
}


async def connection_error(error: Exception, url: URL) -> CliError:
    """Return the error for a call without an answer; a broken connection is probed for TLS."""
    if isinstance(error, ssl.SSLError | aiohttp.ClientSSLError):
        what, fix = _of_tls(error, url)
    elif _is_broken_connection(error):
        what, fix = await _of_break(error, url)
    else:
        what, fix = _of_connecting(error)
    return CliError(Exit.UNREACHABLE, Refusal(what, str(url), fix))


def problem_error(status: int, body: bytes, asked: tuple[str, Exit]) -> CliError:
    """Return the master's problem document as an error, or its bare status.

    `asked` is the call, and the exit code of its 400: our mistake, or the user's.
    """
    call, malformed = asked
    problem = problem_of(body)
    what = problem["detail"] or problem["title"] or f"HTTP status {status}"
    said = "" if status in _FIX_IS_OURS else problem["fix"]
    fix = said or _FIXES.get(status, "look at the master's log")
    code = Exit.UNREACHABLE if status >= 500 or status < 400 else Exit.REFUSED
    code = malformed if status == 400 else code
    if status == 404 and not (problem["detail"] or problem["title"]):
        code, fix = Exit.UNREACHABLE, _NO_MASTER
    return CliError(code, in_options(Refusal(what, problem["field"], fix), call))


def _is_broken_connection(error: Exception) -> bool:
    """Return whether a connection stood and broke before a whole HTTP answer."""
    never_stood = isinstance(error, aiohttp.ClientConnectorError | TimeoutError)
    return isinstance(error, aiohttp.ClientError | ConnectionError | ValueError) and not never_stood


def _of_tls(error: Exception, url: URL) -> tuple[str, str]:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = f"the certificate is not trusted: {error.certificate_error}"
        return reason, "give the authority's certificate with --ca-file"
    if any(word in str(error) for word in _NO_TLS):
        return "that port does not speak TLS", f"write {url.with_scheme('http')}"
    return f"TLS failed: {error}", "look at the master's certificate and key, and at its log"


async def _of_break(error: Exception, url: URL) -> tuple[str, str]:
    is_plain = url.scheme == "http"
    if is_plain and url.host and url.port and await speaks_tls(url.host, url.port):
        fix = f"write {url.with_scheme('https')}; --ca-file names who vouches for it"
        return "that port speaks TLS, and was asked over plain http", fix
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError):
        # the library's words speak of a status 400
        return "the connection broke before the answer was whole", "try again"
    if isinstance(error, aiohttp.ClientResponseError):
        return "what answers does not keep to HTTP", _NO_MASTER
    return f"the connection broke ({str(error) or type(error).__name__})", "try again"


def _of_connecting(error: Exception) -> tuple[str, str]:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the host name does not resolve", "correct --master or TOPO_MASTER"
    if isinstance(error, TimeoutError):
        return "the master did not answer in time", "look at its log and at GET /health"
    fix = "start one with `topo demo`, or name yours with --master or TOPO_MASTER"
    number = error.errno if isinstance(error, OSError) else None
    return f"no master answers: {os.strerror(number) if number else error}", fix
