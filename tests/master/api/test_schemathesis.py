"""Schemathesis calls the running master as `/openapi.json` describes it, rightly and wrongly.

https://schemathesis.readthedocs.io: boundary values of every parameter and field, generated calls,
and chains of calls along the links. It must find no server error and no answer whose status,
content type, headers or body are not described. The stream of events is left out: it never ends.
"""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.master.placing import WRITER, config

pytestmark = pytest.mark.slow

_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
_EXAMPLES = 30
"""For each call and phase; with the boundary values some two thousand calls in half a minute."""
_PORTS = ("--server-port=0", "--rpc-server-port=0", "--bind-address=127.0.0.1")


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The URL of a master of the vendor's shape: dragonflies of two nodes below switchboxes."""
    (tmp_path / "nodegroup.yaml").write_text(config(boxes=2, flies=3, nodes=2))
    (tmp_path / "writers").write_text(f"ops {WRITER}\n")
    files = (
        f"--config-file={tmp_path / 'nodegroup.yaml'}",
        f"--api-token-file={tmp_path / 'writers'}",
        "--gpus-per-node=8",
    )
    command = [sys.executable, "-m", "master", *_PORTS, *files]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        events = map(json.loads, process.stdout)
        port = next(e["port"] for e in events if e["event"] == "listening" and e["site"] == "api")
        rest = threading.Thread(target=process.stdout.read)  # a log that nobody reads stops it
        rest.start()
        yield f"http://127.0.0.1:{port}"
        process.terminate()
        rest.join()


def test_no_call_is_answered_otherwise_than_described(master: str, tmp_path: Path) -> None:
    found = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"),
            "run",
            f"{master}/openapi.json",
            f"--header=Authorization: Bearer {WRITER}",
            "--exclude-path=/v1/topology/events",
            f"--checks={','.join(_CHECKS)}",
            f"--max-examples={_EXAMPLES}",
            "--generation-deterministic",
            "--continue-on-failure",
            "--no-color",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    report = "\n".join(line[:200] for line in found.stdout.splitlines())
    assert found.returncode == 0, report[-8000:]
    selected = re.search(r"Selected: (\d+)/(\d+)", report)
    assert selected is not None
    assert int(selected[2]) - int(selected[1]) == 1, "every call but the stream"
