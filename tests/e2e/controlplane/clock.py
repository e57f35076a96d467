"""A wall clock that is wrong in one process: Python's own, by a module that it imports first."""

from collections.abc import Mapping
from pathlib import Path

_MODULE = """import datetime, time
_real, _real_ns = time.time, time.time_ns
time.time = lambda: _real() + {s}
time.time_ns = lambda: _real_ns() + {s} * 10**9


class _Shifted(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls):
        return datetime.datetime.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)


datetime.datetime = _Shifted
"""


def wrong_by(seconds: int, folder: Path) -> Mapping[str, str]:
    """The environment in which a Python process has its wall clock off; monotonic clocks are not.

    `folder` is for it alone. Source: Python's `site`, `sitecustomize`.
    """
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_MODULE.format(s=seconds))
    return {"PYTHONPATH": str(folder)}
