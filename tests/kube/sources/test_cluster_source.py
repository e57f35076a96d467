"""The cluster as a source of a master: when it is waited for, what it tells, how it fails."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.kube import fake_server as fake
from tests.kube.fake_server import FakeServer, fake_server
from tests.kube.sources.test_cluster_capacity import following, told
from tests.master.world import Master
from tests.support.kubernetes import node_status
from tests.support.waiting import eventually

pytestmark = pytest.mark.virtual_time

GPU, SGPU = "metax-tech.com/gpu", "metax-tech.com/sgpu"
PAIR = """
group:
- name: s
  kind: switchbox
  child:
  - {name: d, kind: dragonfly, child: [a, b]}
"""
"""The vendor's dragonfly of two nodes."""
CONFIG_MAP = ("configmaps", "metax-device-config", "metax")


async def put_node(server: FakeServer, name: str, **more: Any) -> None:
    """A Ready node of eight GPUs, or as said."""
    status = node_status() | more.pop("status", {})
    status["allocatable"] = more.pop("allocatable", status["allocatable"])
    await server.put("nodes", name, status=status, **more)


async def put_pod(server: FakeServer, name: str, node: str, gpus: str) -> None:
    """A pod that runs there."""
    container = {"resources": {"limits": {GPU: gpus}}}
    spec = {"nodeName": node, "containers": [container]}
    await server.put("pods", name, "jobs", metadata={"uid": f"uid-{name}"}, spec=spec)


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with fake_server() as running:
        for name in "ab":
            await put_node(running, name)
        yield running


async def source(master: Master) -> dict[str, Any]:
    """What the topology says of this source."""
    document = (await master.get("/v1/topology")).json
    (found,) = [each for each in document["sources"] if each["source"] == "cluster-nodes"]
    return dict(found)


async def place(master: Master) -> Any:
    """A job of one node."""
    return await master.get("/v1/placements?pods=1&gpus_per_pod=8")


async def test_no_group_is_handed_out_before_nodes_and_pods_were_listed(
    server: FakeServer, tmp_path: Path
) -> None:
    """A node may not be Ready, a GPU not free, for all that is known before."""
    await put_pod(server, "p", "a", "8")
    server.always["list"] = fake.refused(403)
    async with following(server, tmp_path, text=PAIR) as master:
        await asyncio.sleep(20)
        for path in ("/node_group", "/ready"):
            answer = await master.get(path)
            assert answer.status == 503
            assert "of Kubernetes" in answer.json["detail"]
        assert (await place(master)).status == 503
        failing = await source(master)
        assert failing["state"] == "failing"
        assert "refused 403" in failing["trouble"]
        assert "verb" in failing["fix"]
        server.always.clear()
        await master.ready()
        assert (await source(master))["state"] == "ok"
        (group,) = (await place(master)).json["groups"]
        assert group["nodes"] == [{"name": "b", "pods": 1}]


async def test_a_kept_tree_is_shown_while_kubernetes_is_silent_and_no_gpu_is_handed_out(
    server: FakeServer, tmp_path: Path
) -> None:
    """Nobody knows which of them are in use."""
    state = f"--state-file={tmp_path / 'state.json'}"
    await put_pod(server, "p", "a", "8")
    async with following(server, tmp_path, state, text=PAIR) as master:
        await master.ready()
        await asyncio.sleep(10)
    server.always["list"] = fake.refused(500)
    async with following(server, tmp_path, state, text=PAIR) as master:
        await asyncio.sleep(5)
        assert (await master.get("/node_group")).status == 200
        refused = await place(master)
        assert (refused.status, refused.json["reasons"]) == (
            503,
            ["the nodes and pods of Kubernetes are not counted yet"],
        )
        server.always.clear()
        await eventually(lambda: _is_placed(master))


async def _is_placed(master: Master) -> bool:
    answer = await place(master)
    return bool(answer.status == 200)


async def test_a_node_that_kubernetes_finds_not_ready_is_so_in_the_tree_and_takes_no_job(
    server: FakeServer, tmp_path: Path
) -> None:
    async with following(server, tmp_path, text=PAIR) as master:
        await master.ready()
        silent = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
        await put_node(server, "a", status={"conditions": silent})
        node = (await told(master))["a"]
        assert [reason.code for reason in node["reasons"]] == ["node-not-ready"]
        assert "NodeStatusUnknown" in node["reasons"][0].text
        assert (node["free_gpus"], (await told(master))["b"]["free_gpus"]) == (0, 8)
        (group,) = (await master.get("/node_group")).json
        assert group["status"] == "NotReady"
        await put_node(server, "a")
        assert (await told(master))["a"]["free_gpus"] == 8


async def test_a_list_without_any_node_takes_none_away_until_one_is_told_again(
    server: FakeServer, tmp_path: Path
) -> None:
    """A cluster that answers has nodes: the list is wrong, not the cluster gone."""
    async with following(server, tmp_path, text=PAIR) as master:
        await master.ready()
        server.lose_objects()
        server.cut_watches()
        await asyncio.sleep(60)
        assert {name: node["free_gpus"] for name, node in (await told(master)).items()} == {
            "a": 8, "b": 8,
        }  # fmt: skip
        assert "lists no node any more" in (await source(master))["trouble"]
        await put_node(server, "b")
        assert {name: node["free_gpus"] for name, node in (await told(master)).items()} == {
            "a": 0, "b": 8,
        }  # fmt: skip
        assert (await source(master))["state"] == "ok"


async def test_a_watch_that_is_lost_for_long_is_a_failing_source_and_changes_nothing(
    server: FakeServer, tmp_path: Path
) -> None:
    async with following(server, tmp_path, text=PAIR) as master:
        await master.ready()
        server.always |= {"list": fake.refused(503), "watch": fake.refused(503)}
        server.cut_watches()
        await asyncio.sleep(10)
        assert (await source(master))["state"] == "ok", "it may be back in a moment"
        await asyncio.sleep(60)
        failing = await source(master)
        assert failing["state"] == "failing"
        assert "refused 503" in failing["trouble"]
        assert (await told(master))["a"]["free_gpus"] == 8
        assert (await place(master)).status == 200
        server.always.clear()
        await asyncio.sleep(60)
        assert (await source(master))["state"] == "ok"


async def test_a_source_with_nothing_new_says_that_it_is_well(
    server: FakeServer, tmp_path: Path
) -> None:
    """An age that grows is what a watch that died looks like."""
    async with following(server, tmp_path, text=PAIR) as master:
        await master.ready()
        await asyncio.sleep(200)
        assert (await source(master))["age_s"] < 20


async def test_what_cannot_be_followed_is_a_warning_of_the_source_and_ends_with_it(
    server: FakeServer, tmp_path: Path
) -> None:
    """One node and one pod; the others are counted as ever."""
    usage = "metax-tech.com/node.usage"
    taints = [{"key": usage, "value": "inference", "effect": "NoSchedule"}]
    async with following(server, tmp_path, text=PAIR) as master:
        await master.ready()
        labels = {"metadata": {"labels": {usage: "training"}}}
        await put_node(server, "a", spec={"taints": taints}, **labels)
        await put_pod(server, "p", "a", "lots")
        await asyncio.sleep(20)
        warnings = (await source(master))["warnings"]
        assert {w["code"] for w in warnings} == {"doubtful-object"}
        texts = [w["text"] for w in warnings]
        assert any("node a: its label and its taint" in text for text in texts)
        assert any("pod jobs/p: metax-tech.com/gpu: 'lots'" in text for text in texts)
        said = await told(master)
        assert (said["a"]["free_gpus"], said["b"]["free_gpus"]) == (0, 8)
        await put_node(server, "a")
        await server.delete("pods", "p", "jobs")
        await asyncio.sleep(20)
        assert (await source(master))["warnings"] == []
        assert (await told(master))["a"]["free_gpus"] == 8


async def test_a_node_that_the_vendors_config_map_puts_into_sgpu_mode_gives_no_whole_gpu(
    server: FakeServer, tmp_path: Path
) -> None:
    """A broken ConfigMap leaves the last good one standing; one that is deleted says nothing."""

    async def states(text: str) -> None:
        plural, name, namespace = CONFIG_MAP
        await server.put(plural, name, namespace, data={"nodes-config": text})
        await asyncio.sleep(20)

    async with following(server, tmp_path, "--pod-namespace=metax", text=PAIR) as master:
        await master.ready()
        await states('- nodeName: "a"\n  mode: "sgpu"\n')
        said = await told(master)
        assert [s["resource"] for s in said["a"]["shared"]] == [SGPU]
        assert (said["a"]["free_gpus"], said["b"]["free_gpus"]) == (0, 8)
        await states("- nodeName: a\n  mode: shared\n")
        assert [s["resource"] for s in (await told(master))["a"]["shared"]] == [SGPU]
        (warning,) = (await source(master))["warnings"]
        assert "the ConfigMap of devices is not used" in warning["text"]
        assert "nodes-config[0].mode" in warning["text"]
        await server.delete("configmaps", "metax-device-config", "metax")
        await asyncio.sleep(20)
        assert (await told(master))["a"]["free_gpus"] == 8
        assert (await source(master))["warnings"] == []


async def test_a_full_queue_gets_the_nodes_when_it_has_room(
    server: FakeServer, tmp_path: Path
) -> None:
    """The engine takes a few events at a time, and of a node the latest counts."""
    for number in range(40):
        await put_node(server, f"n{number}")
    async with following(server, tmp_path, text=PAIR) as master:
        master.service.engine._queue_limit = 1
        await master.ready()
        for number in range(40):
            unknown = [{"type": "Ready", "status": "Unknown"}]
            await put_node(server, f"n{number}", status={"conditions": unknown})
        await asyncio.sleep(60)
        said = await told(master)
        assert all(
            "node-not-ready" in {reason.code for reason in said[f"n{number}"]["reasons"]}
            for number in range(40)
        )


async def test_a_placement_by_usage_goes_by_the_labels_of_the_cluster(
    server: FakeServer, tmp_path: Path
) -> None:
    for name, pool in (("a", "inference"), ("b", "training")):
        labels = {"metax-tech.com/node.usage": pool}
        await put_node(server, name, metadata={"labels": labels})
    async with following(server, tmp_path, text=PAIR) as master:
        await master.ready()
        for usage, node in (("training", "b"), ("inference", "a")):
            answer = await master.get(f"/v1/placements?pods=1&gpus_per_pod=8&usage={usage}")
            (group,) = orjson.loads(answer.body)["groups"]
            assert [each["name"] for each in group["nodes"]] == [node]
        assert {name: node["pool"] for name, node in (await told(master)).items()} == {
            "a": "inference", "b": "training",
        }  # fmt: skip


async def test_the_gpus_of_a_node_without_a_worker_are_those_that_kubernetes_says(
    tmp_path: Path,
) -> None:
    """With their type by the product label: the file says neither."""
    async with fake_server() as server:
        for name in "ab":
            labels = {"metax-tech.com/gpu.product": "MXC550"}
            await put_node(server, name, metadata={"labels": labels})
        async with following(server, tmp_path, "--gpus-per-node=0", text=PAIR) as master:
            await master.ready()
            node = (await told(master))["a"]
            assert (node["gpus"], node["free_gpus"], node["gpu_type"]) == (8, 8, "MXC550")
            (group,) = (await master.get("/v1/topology?depth=0")).json["groups"]
            assert (group["capacity"]["gpus"], group["capacity"]["ready_gpus"]) == (16, 16)
