"""Logs: one event per fact, JSON or text, to stdout or to a file that rotates by time."""

import contextlib
import logging
import logging.handlers
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

import orjson
import structlog
from pydantic import BeforeValidator
from structlog.typing import EventDict, Processor

from topo.kit.durations import Seconds
from topo.kit.hiding import HIDDEN, is_secret_name, mask_secrets
from topo.kit.settings import Chart, ServiceSettings
from topo.model.errors import BadInputError, Refusal

_WEEK_S = 7 * 86400.0
UNWRITTEN_EVERY_S = 60.0
"""How often stderr says that the log cannot be written, such as on a full disk."""


def _level(word: object) -> object:
    """Return the log level for the spelling of other programs: `INFO`, `Warn`."""
    if not isinstance(word, str):
        return word
    level = word.strip().lower()
    return "warning" if level == "warn" else level


class LogSettings(ServiceSettings):
    """The log (the vendor's flags)."""

    log_file: Annotated[Path | None, Chart("log.toFiles", is_plain=False)] = None
    """File to log to; stdout without one."""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        BeforeValidator(_level),
        Chart("log.level", is_plain=False),
    ] = "info"
    """The lowest level that is logged: debug, info, warning or error."""
    log_format: Annotated[Literal["json", "console"], Chart("log.format", is_plain=False)] = "json"
    """json: one object per line; console: text for people."""
    log_rotation_time: Annotated[Seconds, Chart("log.rotationTime", is_plain=False)] = _WEEK_S
    """The log file is renamed at multiples of this span (1h, 1d, 1w)."""
    log_max_age: Annotated[Seconds, Chart("log.maxAge", is_plain=False)] = 26 * _WEEK_S
    """Renamed log files older than this are deleted."""


def hide_secrets(_logger: object, _name: str, event: EventDict) -> Mapping[str, Any]:
    """Replace values of secret keys and secrets inside texts by `***`; a structlog processor."""
    return {key: _hidden(key, value) for key, value in event.items()}


def _hidden(key: object, value: object) -> object:
    if isinstance(key, str) and is_secret_name(key) and value not in (None, "", True, False):
        return HIDDEN
    if isinstance(value, Mapping):
        return {k: _hidden(k, v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_hidden("", item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    # The renderer would turn it into text later, when secrets are no longer masked.
    return mask_secrets(repr(value) if isinstance(value, Exception) else str(value))


def make_writable(_logger: object, _name: str, event: EventDict) -> Mapping[str, Any]:
    r"""Escape what UTF-8 or JSON cannot encode, so no line is lost; a structlog processor.

    These are lone surrogates (file names that are not UTF-8, `\ud800` in JSON) and whole numbers
    beyond 64 bits.
    """
    return {_writable(key): _writable(value) for key, value in event.items()}


def _writable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int) and value.bit_length() >= 64:
        return str(value)
    if isinstance(value, Mapping):
        return {_writable(k): _writable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    return value


class _ReportsLostLines(logging.Handler):
    """A handler that reports once a minute that it cannot write to `where`.

    `logging` itself prints a traceback for each line, with its content before secrets are masked.
    """

    where = "stdout"
    _silent_until_s = 0.0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, ARG002 - logging's
        """Write one bounded line to stderr; the record is lost."""
        now_s = time.monotonic()
        if now_s < self._silent_until_s:
            return
        self._silent_until_s = now_s + UNWRITTEN_EVERY_S
        kind, error, _ = sys.exc_info()
        why = error.strerror if isinstance(error, OSError) else None
        with contextlib.suppress(OSError, ValueError):  # stderr may be on the same disk
            sys.stderr.write(f"lines of the log are lost: {self.where}: {why or kind}\n")


class _Stdout(_ReportsLostLines, logging.StreamHandler[TextIO]):
    """The log on stdout."""


class RotatingFile(_ReportsLostLines, logging.handlers.BaseRotatingHandler):
    """A log file renamed at multiples of `rotation_s` of Unix time, old ones deleted by age.

    The period follows from the file's mtime, so restarts neither delay nor repeat a rotation. The
    vendor's flags mean a span and an age. `TimedRotatingFileHandler` counts spans from its start,
    limits the number of files, and stops logging if a file cannot be renamed.
    """

    def __init__(self, path: Path, rotation_s: float, max_age_s: float) -> None:
        super().__init__(path, "a", encoding="utf-8", delay=False)
        self.where = str(path)
        self._path = path
        self._rotation_s = max(rotation_s, 1.0)
        self._max_age_s = max_age_s
        stat = path.stat()
        self._period = self._period_of(stat.st_mtime if stat.st_size else time.time())
        self._delete_old()

    def _period_of(self, unix_s: float) -> int:
        return int(unix_s // self._rotation_s)

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802 - logging's name
        """Return whether the record belongs to a later period than the file."""
        return self._period_of(record.created) > self._period

    def doRollover(self) -> None:  # noqa: N802 - logging's name
        """Rename the file after the second in which its period began, and open a new one.

        If that fails, the old file is used until the next period, and stderr says so.
        """
        began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._period * self._rotation_s))
        self._period = self._period_of(time.time())
        former = self.stream
        try:
            self.rotate(self.baseFilename, f"{self.baseFilename}.{began}")
            self.stream = self._open()
            self._delete_old()
        except OSError as error:
            sys.stderr.write(f"the log file {self.baseFilename} is not rotated: {error}\n")
        if former is not None and former is not self.stream:
            former.close()

    def _delete_old(self) -> None:
        """Delete expired files that this class renamed, and nothing else."""
        ours = re.compile(rf"{re.escape(self._path.name)}\.[0-9]{{8}}T[0-9]{{6}}Z")
        oldest_s = time.time() - self._max_age_s
        for path in self._path.parent.iterdir():
            # Another process may delete there, too.
            with contextlib.suppress(FileNotFoundError):
                if ours.fullmatch(path.name) and path.is_file() and path.stat().st_mtime < oldest_s:
                    path.unlink()


def configure_logs(settings: LogSettings, service: str) -> None:
    """Send structlog and the standard library's loggers to one place, with secrets masked.

    Raises `BadInputError` if the log file cannot be opened.
    """

    def name_service(_logger: object, _name: str, event: EventDict) -> EventDict:
        event["service"] = service
        return event

    stdlib, processors = structlog.stdlib, structlog.processors
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        stdlib.add_log_level,
        stdlib.PositionalArgumentsFormatter(),
        processors.TimeStamper(fmt="iso", utc=True),
        name_service,
    ]
    # Tracebacks become text before secrets are hidden; none of the renderers shows local
    # variables, which is where passwords live.
    last: list[Processor] = [processors.format_exc_info, hide_secrets, make_writable]
    structlog.configure(
        processors=[
            stdlib.filter_by_level,
            *shared,
            stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=stdlib.BoundLogger,
        logger_factory=stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    remove_meta = stdlib.ProcessorFormatter.remove_processors_meta
    formatter = stdlib.ProcessorFormatter(
        foreign_pre_chain=shared, processors=[remove_meta, *last, _renderer(settings)]
    )
    handler = _handler(settings)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(settings.log_level.upper())
    # No line per request: metrics count requests.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


def _renderer(settings: LogSettings) -> Processor:
    if settings.log_format == "json":
        return structlog.processors.JSONRenderer(serializer=_dumps)
    return structlog.dev.ConsoleRenderer(
        colors=settings.log_file is None and sys.stdout.isatty(),
        exception_formatter=structlog.dev.plain_traceback,
    )


def _dumps(event: object, **_: object) -> str:
    return orjson.dumps(event, default=_as_text, option=orjson.OPT_NON_STR_KEYS).decode()


def _as_text(value: object) -> object:
    return _writable(str(value))


def _handler(settings: LogSettings) -> logging.Handler:
    if settings.log_file is None:
        return _Stdout(sys.stdout)
    fix = "give a file in a writable directory, or leave the flag out to log to stdout"
    where = f"--log-file={settings.log_file}"
    if settings.log_file.is_fifo():  # opening it would wait for a reader
        raise BadInputError(Refusal("this is a FIFO, which cannot be rotated", where, fix))
    try:
        settings.log_file.parent.mkdir(parents=True, exist_ok=True)
        return RotatingFile(settings.log_file, settings.log_rotation_time, settings.log_max_age)
    except OSError as error:
        what = f"the log file cannot be opened: {error.strerror or error}"
        raise BadInputError(Refusal(what, where, fix)) from error
