"""The content of a cluster, as `master.inspection` finds it with the master's client.

It is a process of its own, because the command line imports nothing of the services.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson

from topo.cli.client.decoding import decode, parse_json
from topo.cli.exit_codes import CliError, Exit
from topo.kit.process.modules import module
from topo.model.errors import Refusal
from topo.model.rest.cluster import ClusterDocument

_LIMIT_S = 120.0
"""A cluster that answers slowly, 40 questions and a second look at the lease."""
_FIX = "look at the API server; `kubectl version` with the same kubeconfig asks it, too"


def inspect(kubeconfig: Path | None, namespace: str) -> ClusterDocument:
    """Inspect a cluster; without a kubeconfig by the pod's service account. Raises `CliError`."""
    argv = [f"--namespace={namespace}"]
    if kubeconfig is not None:
        argv.append(f"--kubeconfig={kubeconfig}")
    done = _run(argv)
    if done.returncode == 0:
        return decode(ClusterDocument, parse_json(done.stdout))
    raise CliError(Exit.UNREACHABLE, _refusal(done.stderr))


def _run(argv: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-P", "-m", module("master.inspection"), *argv]
    try:
        return subprocess.run(  # noqa: S603 - our own module, and no shell
            command, capture_output=True, check=False, timeout=_LIMIT_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        what = f"the cluster was not looked through in {_LIMIT_S:.0f} s"
        raise CliError(Exit.UNREACHABLE, Refusal(what, "the API server", _FIX)) from None


def _refusal(stderr: bytes) -> Refusal:
    """Return the refusal that the process wrote last, or the last line of its traceback."""
    lines = stderr.decode(errors="replace").strip().splitlines() or ["no word"]
    try:
        said = parse_json(lines[-1])
        return Refusal(str(said["what"]), str(said["where"]), str(said["fix"]))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return Refusal(lines[-1], module("master.inspection"), _FIX)
