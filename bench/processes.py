"""The processes of a benchmark: real services, and helpers that measure; none outlives the run."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

import orjson

from bench.scale import CannotRunError
from topo.cli.demo.processes import environment
from topo.kit.process.child_process import die_with_parent, die_with_parent_command

P = ParamSpec("P")
R = TypeVar("R")

LOOPBACK = "127.0.0.1"
_GRACE_S = 12.0
"""From SIGTERM to SIGKILL; the master promises to drain in ten seconds."""
_START_S = 60.0


def in_child(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What the function returns, called in a fresh process of its own.

    Its heap, its garbage collector and its load on the loop are then nobody else's.
    """
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=die_with_parent) as pool:
        try:
            return pool.submit(work, *args, **kwargs).result()
        except BrokenProcessPool as error:
            raise CannotRunError("the measuring process died") from error


@contextmanager
def process(name: str, argv: tuple[str, ...], home: Path) -> Iterator["Running"]:
    """The program runs inside the block and not after it, also if this process is killed."""
    log = home / f"{name}.log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            die_with_parent_command(*argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=environment(),
        )
    try:
        yield Running(name, child, log)
    finally:
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    for number, patience_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(patience_s)
            return


@dataclass(frozen=True, slots=True)
class Running:
    """A process that was started, and its log."""

    name: str
    child: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """Its process id; the command becomes the program, so it is the program's own."""
        return self.child.pid

    def wait_for(self, found: Callable[[], R | None], what: str) -> R:
        """What the function finds, asked until it does; raises when the process dies instead."""
        until_s = time.monotonic() + _START_S
        while (answer := found()) is None:
            if self.child.poll() is not None or time.monotonic() > until_s:
                tail = " | ".join(self.log.read_text("utf-8", "replace").splitlines()[-3:])
                raise CannotRunError(f"{self.name}: no {what}. Its log ends: {tail}")
            time.sleep(0.05)
        return answer

    def ports(self, *sites: str) -> tuple[int, ...]:
        """The ports that the process's log names for its sites."""
        return self.wait_for(lambda: _ports(self.log, sites), f"line for {', '.join(sites)}")


def _ports(log: Path, sites: tuple[str, ...]) -> tuple[int, ...] | None:
    found: dict[str, int] = {}
    for line in log.read_bytes().splitlines():
        with suppress(orjson.JSONDecodeError):
            event = orjson.loads(line)
            if event.get("event") == "listening":
                found[event["site"]] = event["port"]
    return tuple(found[s] for s in sites) if found.keys() >= set(sites) else None


@dataclass(frozen=True, slots=True)
class Master:
    """A real master: its process and its two ports on the loopback address."""

    pid: int
    api_port: int
    reports_port: int

    @property
    def url(self) -> str:
        """The address of its API and of its page."""
        return f"http://{LOOPBACK}:{self.api_port}/"

    def must_live(self) -> None:
        """Raise `CannotRunError` if the process has ended."""
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            raise CannotRunError(f"the master with the process id {self.pid} has ended")


@contextmanager
def master(home: Path, *flags: str) -> Iterator[Master]:
    """A topo-master with these flags on free ports, as its own process."""
    argv = (
        *(sys.executable, "-m", "master"),
        *(f"--bind-address={LOOPBACK}", "--server-port=0", "--rpc-server-port=0"),
        *flags,
    )
    with process("topo-master", argv, home) as running:
        yield Master(running.pid, *running.ports("api", "reports"))


@contextmanager
def switchbox_master(home: Path, world: str, *flags: str) -> Iterator[tuple[Master, str]]:
    """A master in switchbox mode with a simulated cluster manager beside it; and a worker token.

    `world` is the name of the simulated cluster, as `topo sim` takes it.
    """
    token = "bench-worker-token"  # noqa: S105 - of a master that lives for a minute on loopback
    token_file = home / "worker-token"
    token_file.write_text(token, encoding="utf-8")
    folder = home / "manager"
    argv = (sys.executable, "-m", "topo.cli.main", "sim", "clustermanager", str(folder), world)
    with process("cluster-manager", argv, home) as manager:
        ready = manager.wait_for(lambda: _ready(folder), "ready.json")
        with master(
            home,
            "--mode=switchbox",
            f"--cluster-manager-address={ready['url']}",
            f"--cluster-manager-ca-file={ready['ca_file']}",
            f"--credentials-dir={ready['credentials_dir']}",
            f"--worker-token-file={token_file}",
            "--gpus-per-node=8",
            *flags,
        ) as running:
            yield running, token


def _ready(folder: Path) -> dict[str, str] | None:
    path = folder / "ready.json"
    if not path.exists():
        return None
    ready: dict[str, str] = orjson.loads(path.read_bytes())
    return ready
