"""Renewal of the ports' certificate when its files change, and its validity."""

from collections.abc import Callable
from pathlib import Path
from ssl import SSLContext

import structlog
from cryptography import x509

from master.file_warnings import FileWarnings
from topo.kit.files import WatchedFile
from topo.kit.tls import MAX_PEM_BYTES, reload_certificate
from topo.model.conditions.master import MasterCondition
from topo.model.errors import BadInputError

_log = structlog.get_logger(__name__)


def renewal(
    warnings: FileWarnings,
    tls: SSLContext,
    pair: tuple[Path, Path],
    lasts: Callable[[float, float], None],
) -> Callable[[], None]:
    """Return a function that loads a changed pair; call it in a thread, for it reads files.

    `lasts` is called with the Unix times between which the current certificate is valid, at once
    and after each change.
    """
    watched = [WatchedFile(path, MAX_PEM_BYTES) for path in pair]
    chain = watched[0].poll()
    watched[1].poll()
    if isinstance(chain, bytes):
        lasts(*validity_s(chain))

    def renew() -> None:
        nonlocal chain
        polled = [file.poll() for file in watched]  # each of them, each time
        if polled == [None, None]:
            return
        chain = chain if polled[0] is None else polled[0]
        try:
            reload_certificate(tls, *pair)
        except BadInputError as error:
            text = f"the certificate is not renewed, the old one stays: {error.refusal.what}"
            warnings.warn(
                MasterCondition.TLS_FILES, text, error.refusal.fix, where=error.refusal.where
            )
        else:
            warnings.clear(MasterCondition.TLS_FILES)
            _log.info("certificate renewed", file=str(pair[0]))
            if isinstance(chain, bytes):
                lasts(*validity_s(chain))

    return renew


def validity_s(chain: bytes) -> tuple[float, float]:
    """Return begin and end of the first certificate of a valid PEM text as Unix times."""
    first = x509.load_pem_x509_certificates(chain)[0]
    return first.not_valid_before_utc.timestamp(), first.not_valid_after_utc.timestamp()
