"""A master with Kubernetes: what it serves, and what it says while it cannot follow it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.web import StreamResponse

from master.cluster import WARN_AFTER_S
from master.sources.config_file import ConfigFile
from tests.kube import fake_server as fake
from tests.kube.fake_server import FakeServer, fake_server
from tests.kube.plain import kubeconfig
from tests.master.placing import config
from tests.master.process import master_process
from tests.master.world import Master, running
from tests.support.waiting import eventually

SLOW_DISK_S = 3.0
NOBODY = "http://127.0.0.1:1"


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with fake_server() as found:
        await found.put("nodes", "node-1")
        yield found


def flags(folder: Path, url: str) -> tuple[str, ...]:
    """Of a master that has its tree from a file, and Kubernetes there."""
    path = folder / "nodegroup.yaml"
    path.write_text(config())
    return f"--config-file={path}", f"--kubeconfig={kubeconfig(folder, url)}"


async def warnings(master: Master) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await master.get("/v1/topology")).json["warnings"]
    return [each for each in found if each["code"].startswith("kubernetes")]


@pytest.mark.virtual_time
async def test_a_master_is_ready_once_it_knows_its_cluster(
    server: FakeServer, tmp_path: Path
) -> None:
    held = asyncio.Event()

    async def slow(reply: fake.Reply, parts: Iterator[bytes]) -> StreamResponse:
        await held.wait()
        await reply.begin()
        await reply.write(next(parts))
        return reply.response

    server.always["list"] = slow
    async with running(*flags(tmp_path, server.url)) as master:
        await eventually(lambda: _shows_the_tree(master))
        answer = await master.get("/ready")
        assert answer.status == 503
        assert answer.json["reasons"][-2:] == [
            "the nodes of Kubernetes are not listed yet",
            "the pods of Kubernetes are not listed yet",
        ]
        held.set()
        await master.ready()
        assert await warnings(master) == []
        cluster = master.service.cluster
        assert cluster is not None
        assert set(cluster.nodes.objects) == {("", "node-1")}


async def _shows_the_tree(master: Master) -> bool:
    return len((await master.get("/v1/topology")).json["groups"]) > 0


@pytest.mark.virtual_time
async def test_a_master_whose_api_server_is_away_serves_what_it_knows_and_says_what_is_missing(
    tmp_path: Path,
) -> None:
    async with running(*flags(tmp_path, NOBODY)) as master:
        await eventually(lambda: _shows_the_tree(master))
        assert (await master.get("/health")).status == 200, "a restart would not help"
        answer = await master.get("/ready")
        assert answer.status == 503
        assert "no connection" in answer.json["detail"] + answer.json["title"]
        nodes, pods = await warnings(master)
        assert (nodes["code"], pods["code"]) == ("kubernetes-nodes", "kubernetes-pods")
        assert "none is known" in nodes["text"]
        assert "GET /api/v1/nodes: no connection" in nodes["text"]
        assert "is the API server running" in nodes["fix"]


@pytest.mark.virtual_time
async def test_a_master_that_kept_its_state_hands_the_tree_out_while_its_api_server_is_away(
    server: FakeServer, tmp_path: Path
) -> None:
    given = (*flags(tmp_path, server.url), f"--state-file={tmp_path / 'state'}")
    async with running(*given) as master:
        tree = await master.tree()
    server.always |= {"list": fake.refused(503), "watch": fake.refused(503)}
    async with running(*given) as master:
        assert (await master.get("/node_group")).json == tree
        assert (await master.get("/ready")).status == 503


@pytest.mark.virtual_time
async def test_a_kept_tree_that_is_older_than_the_labels_changes_none_of_them(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the end of a leader that wrote more than it had kept, on a slow disk."""
    given = (*flags(tmp_path, server.url), f"--state-file={tmp_path / 'state'}")
    node = "n0-0-0"
    await server.put("nodes", node, metadata={"labels": {"metax-tech.com/dragonfly": "d0-0"}})
    (tmp_path / "nodegroup.yaml").write_text(config().replace("d0-0", "before").replace("s0", "s"))
    async with running(*given) as master:
        await master.ready()
    (tmp_path / "nodegroup.yaml").write_text(config())
    assert _label_writes(server)
    server.asked.clear()
    labels = {"metax-tech.com/dragonfly": "d0-0", "metax-tech.com/switchbox": "s0"}
    await server.put("nodes", node, metadata={"labels": labels})
    read = ConfigFile.run

    async def read_late(source: ConfigFile) -> None:
        await asyncio.sleep(SLOW_DISK_S)
        await read(source)

    monkeypatch.setattr(ConfigFile, "run", read_late)
    async with running(*given) as master:
        assert await _shows(master, "before")
        await eventually(lambda: _shows(master, "d0-0"))
        await asyncio.sleep(5)
    assert _label_writes(server) == []


def _label_writes(server: FakeServer) -> list[fake.Asked]:
    manager = "topo-master/labels"
    return [asked for asked in server.asked if asked.query.get("fieldManager") == manager]


async def _shows(master: Master, group: str) -> bool:
    return group in (await master.get("/node_group")).body.decode()


@pytest.mark.virtual_time
async def test_missing_rights_are_named_with_the_next_step(
    server: FakeServer, tmp_path: Path
) -> None:
    said = 'nodes is forbidden: User "system:serviceaccount:n:topo-master" cannot list resource'
    server.always["list"] = fake.refused(403, reason="Forbidden", message=said)
    async with running(*flags(tmp_path, server.url)) as master:
        await asyncio.sleep(1)
        nodes, _ = await warnings(master)
        assert said in nodes["text"]
        assert "give this user the verb and the resource" in nodes["fix"]


@pytest.mark.virtual_time
async def test_an_outage_is_a_warning_when_it_lasts_and_takes_no_readiness(
    server: FakeServer, tmp_path: Path
) -> None:
    async with running(*flags(tmp_path, server.url)) as master:
        await master.ready()
        server.always |= {"list": fake.refused(503), "watch": fake.refused(503)}
        server.cut_watches()
        await asyncio.sleep(WARN_AFTER_S / 2)
        assert await warnings(master) == []
        await asyncio.sleep(WARN_AFTER_S)
        assert len(await warnings(master)) == 2
        assert "what was known of them stays" in (await warnings(master))[0]["text"]
        assert (await master.get("/ready")).status == 200
        server.always.clear()
        await asyncio.sleep(2 * WARN_AFTER_S)
        assert await warnings(master) == []


@pytest.mark.virtual_time
async def test_without_kubernetes_nothing_of_it_is_there(tmp_path: Path) -> None:
    async with running(flags(tmp_path, NOBODY)[0]) as master:
        await master.ready()
        assert master.service.cluster is None
        assert b"topo_master_kube" not in (await master.get("/metrics")).body


async def test_a_kubeconfig_that_cannot_be_used_ends_the_start_with_what_to_do(
    tmp_path: Path,
) -> None:
    given = flags(tmp_path, NOBODY)
    (tmp_path / "kubeconfig").write_text("contexts: []\n")
    async with master_process(*given) as master:
        assert await master.wait() == 2
    said = " ".join(str(line) for line in master.log)
    assert f"--kubeconfig {tmp_path / 'kubeconfig'}: current-context" in said


async def test_a_master_with_kubernetes_ends_at_once_and_in_order(
    server: FakeServer, tmp_path: Path
) -> None:
    async with master_process(*flags(tmp_path, server.url)) as master:
        await eventually(lambda: _answers(master, "/ready"))
        assert await master.end() == 0


async def _answers(master: Any, path: str) -> bool:
    return bool(await master.status(path) == 200)
