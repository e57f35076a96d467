"""TLS of the port that schedulers ask: its certificate, and the authority of its clients.

Both are read again when their files change, for connections from then on.
"""

import ssl
from collections.abc import Callable
from pathlib import Path

import structlog

from master.certificate import validity_s
from master.file_warnings import FileWarnings
from topo.kit.files import WatchedFile
from topo.kit.tls import MAX_PEM_BYTES, reload_certificate, server_context, verify_clients
from topo.model.conditions.master import MasterCondition
from topo.model.errors import BadInputError

_log = structlog.get_logger(__name__)


class ExtenderTls:
    """The context of the port. Raises `BadInputError` for files that cannot be used.

    `lasts` is called with the Unix times between which the current certificate is valid.
    """

    def __init__(
        self,
        pair: tuple[Path, Path],
        client_ca: Path | None,
        *,
        warnings: FileWarnings,
        lasts: Callable[[float, float], None],
    ) -> None:
        self._pair, self._client_ca = pair, client_ca
        self._warnings, self._lasts = warnings, lasts
        paths = pair if client_ca is None else (*pair, client_ca)
        self._watched = [WatchedFile(path, MAX_PEM_BYTES) for path in paths]
        polled = [file.poll() for file in self._watched]
        self._chain = polled[0]
        self._context, self._authorities = self._made()
        self._told_validity()

    @property
    def context(self) -> ssl.SSLContext:
        """The context of connections from now on.

        It is another object once the authorities of clients changed: a certificate that was
        verified against the former ones counts no more.
        """
        return self._context

    def renew(self) -> None:
        """Load what changed in the files; call it in a thread, for it reads them.

        Files that cannot be used together change nothing and are a warning.
        """
        polled = [file.poll() for file in self._watched]  # each of them, each time
        if not any(each is not None for each in polled):
            return
        self._chain = polled[0] or self._chain
        try:
            made, authorities = self._made()
            if authorities == self._authorities:
                reload_certificate(self._context, *self._pair)
            else:
                self._context, self._authorities = made, authorities
        except BadInputError as error:
            why = error.refusal
            text = f"the extender's TLS is not renewed, the old one stays: {why.what}"
            code = MasterCondition.EXTENDER_TLS_FILES
            self._warnings.warn(code, text, why.fix, where=why.where)
        else:
            self._warnings.clear(MasterCondition.EXTENDER_TLS_FILES)
            _log.info("the extender's TLS is renewed", file=str(self._pair[0]))
            self._told_validity()

    def _made(self) -> tuple[ssl.SSLContext, bytes]:
        """Return a context of the files as they are, and the authorities of clients in it."""
        context = server_context(*self._pair)
        ca = self._client_ca
        return context, b"" if ca is None else verify_clients(context, ca)

    def _told_validity(self) -> None:
        if isinstance(self._chain, bytes):
            self._lasts(*validity_s(self._chain))
