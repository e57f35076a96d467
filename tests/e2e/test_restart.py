"""A master without a state file that starts while its workers wait between their tries."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import leaves
from tests.support.ports import free_ports
from tests.support.waiting import CEILING_S
from tests.support.waiting import eventually_in_a_thread as eventually
from topo.sim.bundles import write_bundle
from topo.sim.worlds.presets import world

pytestmark = pytest.mark.slow

CLUSTER = world(1, 6, 2)
NODES = {str(node.name) for node in CLUSTER.nodes}


@contextmanager
def _process(log: Path, *argv: str) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("ab") as out:
        process = subprocess.Popen([sys.executable, "-m", *argv], stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _answer(port: int) -> tuple[int, Any]:
    """The status and document of /node_group; 0 while nobody listens."""
    connection = HTTPConnection("127.0.0.1", port, timeout=CEILING_S)
    try:
        connection.request("GET", "/node_group")
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except OSError:
        return 0, None
    finally:
        connection.close()


def test_with_a_short_beat_a_part_of_the_nodes_is_never_served_as_all(tmp_path: Path) -> None:
    """At its first start beside waiting workers, and again after a kill -9."""
    api, reports = free_ports((0, 0))
    (tmp_path / "token").write_text("worker-secret-1")
    (tmp_path / "token").chmod(0o600)
    command = (
        "master",
        "--mode=dragonfly",
        "--bind-address=127.0.0.1",
        f"--server-port={api}",
        f"--rpc-server-port={reports}",
        f"--worker-token-file={tmp_path / 'token'}",
        "--beat-interval=200ms",
    )
    with ExitStack() as workers:
        for node in CLUSTER.nodes:
            write_bundle(tmp_path / node.name, node)
            flags = (
                f"--node-name={node.name}",
                f"--server-address=127.0.0.1:{reports}",
                "--metrics-address=127.0.0.1:0",
                f"--token-file={tmp_path / 'token'}",
                f"--replay={tmp_path / node.name}",
            )
            workers.enter_context(_process(tmp_path / f"{node.name}.log", "worker", *flags))
        for name in NODES:
            log = tmp_path / f"{name}.log"
            eventually(lambda log=log: "reports do not arrive" in log.read_text())  # type: ignore[misc]
        for _ in range(2):
            with _process(tmp_path / "master.log", *command) as master:
                refused: list[str] = []

                def is_whole(
                    refused: list[str] = refused, master: "subprocess.Popen[bytes]" = master
                ) -> bool:
                    assert master.poll() is None, (tmp_path / "master.log").read_text()
                    status, document = _answer(api)
                    if status == 200:
                        assert set(leaves(document)) == NODES
                        return True
                    if status:
                        assert status == 503
                        refused.append(document["detail"])
                    return False

                eventually(is_whole)
            assert "workers are still reporting" in refused[0]
