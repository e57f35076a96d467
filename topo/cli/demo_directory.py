"""The directory of a running demo: private, one per user, read by other terminals.

The directory is `$TOPO_DEMO_DIR`, else `topo-demo-<uid>` in the directory for temporary files. It
belongs to the user alone (mode 0700), holds everything the demo writes, and is gone after it.
Whether a demo runs is whether somebody holds the lock of its lock file, so the leftovers of a
killed demo are never taken for a living one and process numbers that came around do not matter.
The lock file says whose it is: a directory that holds anything and not that is never emptied.
"""

import fcntl
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Self

from topo.cli.default_master import DEFAULT_MASTER
from topo.cli.exit_codes import CliError, Exit, usage
from topo.kit.files import replace_whole
from topo.model.errors import Refusal

_LOCK = "lock"
_OURS = b"This directory belongs to `topo demo`, which empties it.\n"
_FILE = "demo.json"


@dataclass(frozen=True, slots=True)
class Demo:
    """What other terminals need of a running demo; `pids` maps a process's name to its number.

    `token_file` has the token for calls that write; `prometheus` is the URL of one, if it runs,
    `kubernetes` the directory of the kubeconfigs, if jobs are played.
    """

    master: str
    recordings: str
    nodes: tuple[str, ...]
    world: str
    pids: Mapping[str, int] = field(default_factory=dict)
    token_file: str = ""
    prometheus: str = ""
    kubernetes: str = ""

    def replay_dir(self, node: str) -> Path:
        """Return the directory that the worker of a node replays from."""
        return Path(self.recordings) / node


def directory() -> Path:
    """Return the directory of this user's demo, whether one runs or not."""
    chosen = os.environ.get("TOPO_DEMO_DIR")
    if chosen:
        return Path(chosen).absolute()
    return Path(tempfile.gettempdir()) / f"topo-demo-{os.getuid()}"


def running_demo() -> Demo | None:
    """Return the demo of this user, None where none runs or it is still starting."""
    home = directory()
    if not _is_private(home) or not _is_locked(home / _LOCK):
        return None
    try:
        fields = json.loads((home / _FILE).read_text(encoding="utf-8"))
        return Demo(**{**fields, "nodes": tuple(fields["nodes"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def master_url(option: str | None) -> str:
    """Return the address that `--master` names, else that of a running demo, else the default."""
    demo = None if option else running_demo()
    return option or (demo.master if demo else DEFAULT_MASTER)


def required_demo() -> Demo:
    """Return the running demo; raise `CliError` where there is none."""
    demo = running_demo()
    if demo is None:
        refusal = Refusal("no demo is running", str(directory()), "start one with `topo demo`")
        raise CliError(Exit.FINDING, refusal)
    return demo


class DemoDirectory:
    """The demo's directory while this process owns it: made and locked, then removed."""

    def __init__(self) -> None:
        self.path = directory()
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> Self:
        """Makes the directory; raises `CliError` when a demo runs or anybody else uses it."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(self.path):
            fix = "set TOPO_DEMO_DIR to a directory of your own with mode 0700"
            raise usage("not a private directory of this user", str(self.path), fix)
        self._lock = _locked(self.path)
        self._empty()
        return self

    def __exit__(self, *_: object) -> None:
        """Removes all that the demo wrote."""
        self._empty()
        # Where somebody put a file of theirs, it stays, and the directory stays marked as ours.
        with suppress(OSError):
            if _names_in(self.path) == {_LOCK}:
                (self.path / _LOCK).unlink()
                self.path.rmdir()
        if self._lock is not None:
            self._lock.close()

    def publish(self, demo: Demo) -> None:
        """Let other terminals find the demo from now on."""
        replace_whole(self.path / _FILE, json.dumps(asdict(demo)).encode())

    def _empty(self) -> None:
        """Remove what this program puts there, and no other file."""
        for name in ("secrets", "recordings", "logs", "state", "prometheus"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        (self.path / _FILE).unlink(missing_ok=True)


def _locked(home: Path) -> IO[bytes]:
    """Return the locked lock file of a directory that is empty or ours; raise `CliError`."""
    others = _names_in(home) - {_LOCK}
    if others and not (home / _LOCK).is_file():
        raise _foreign(home)
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        lock = os.fdopen(os.open(home / _LOCK, flags, 0o600), "r+b")
    except OSError:
        raise _foreign(home) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        fix = "use it (`topo tree`), stop it, or set TOPO_DEMO_DIR for a second one"
        raise usage("a demo is already running", str(home), fix) from None
    mark = lock.read(len(_OURS) + 1)
    if mark != _OURS and (mark or others):
        lock.close()
        raise _foreign(home)
    if not mark:
        lock.write(_OURS)
        lock.flush()
    return lock


def _names_in(home: Path) -> set[str]:
    return {path.name for path in home.iterdir()}


def _foreign(home: Path) -> CliError:
    fix = "set TOPO_DEMO_DIR to an empty directory, or to one that does not exist yet"
    return usage("the directory holds files that are not a demo's", str(home), fix)


def _is_private(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return ours and not stat.S_IMODE(found.st_mode) & 0o077


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
