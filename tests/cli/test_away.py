"""`topo` where no master answers in time, or none at all."""

import socket
from contextlib import closing
from importlib import metadata

import aiohttp
import pytest

from tests.cli.conftest import FakeMaster, Topo
from topo.cli.client import client
from topo.cli.exit_codes import Exit


def test_a_master_that_hangs_is_told_after_three_seconds_and_given_up_after_ten(
    topo: Topo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the connection, and never answers."""
    assert client.PATIENCE_S == 3.0
    monkeypatch.setattr(client, "PATIENCE_S", 0.01)
    timeout = aiohttp.ClientTimeout(total=30, sock_connect=5, sock_read=0.2)
    monkeypatch.setattr(client, "_ANSWER_TIMEOUT", timeout)
    assert client.HANGING_S == 10.0
    with closing(socket.create_server(("127.0.0.1", 0))) as hung:
        shown = topo("tree", "--master", f"http://127.0.0.1:{hung.getsockname()[1]}")
    assert shown.exit_code == Exit.UNREACHABLE
    first, *rest = shown.stderr.splitlines()
    assert "the master hangs, or is busy" in first
    assert "the master did not answer in time" in rest[0]


def test_version_tells_ours_and_the_masters_which_may_be_away(
    topo: Topo, fake_master: FakeMaster
) -> None:
    fake_master.broken["/openapi.json"] = (200, '{"info": {"version": "9.9"}}', {})
    ours = metadata.version("supernode-topology")
    assert topo("version").stdout == f"topo {ours}\nmaster 9.9 at {fake_master.url}\n"
    fake_master.stop()
    shown = topo("version")
    assert shown.exit_code == Exit.OK
    assert "master unknown: no master answers" in shown.stdout
