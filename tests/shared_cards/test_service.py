"""Shared cards of a cluster, as a master shows them: each card, sums, metrics, and the best one."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.extender.model import asked
from tests.kube.fake_server import FakeServer, fake_server
from tests.support.kubernetes import READY

pytestmark = pytest.mark.virtual_time

CORE, MEMORY = "tencent.com/vcuda-core", "tencent.com/vcuda-memory"
METAX = [
    {"uuid": f"GPU-{at}", "totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536}
    | {"healthy": at != 1, "model": "MXC500"}
    for at in range(2)
]
REGISTER = "GPU-a,10,32768,V100,true,hami-core:GPU-b,10,32768,V100,true,hami-core:"
NODES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "n0-0-0": (
        {"metax-tech.com/node-gpu-devices": json.dumps(METAX)},
        {"metax-tech.com/sgpu": "32"},
    ),
    "n0-0-1": ({"volcano.sh/node-vgpu-register": REGISTER}, {"volcano.sh/vgpu-number": "20"}),
    "n0-1-0": ({}, {CORE: "200", MEMORY: "240"}),
    "n0-1-1": ({}, {"metax-tech.com/gpu": "8"}),
}


async def cluster(server: FakeServer) -> None:
    """A node of each family, one with whole cards, and pods on the first three."""
    for name, (annotations, devices) in NODES.items():
        status = {"allocatable": devices, "conditions": [READY]}
        metadata = {"annotations": annotations}
        await server.put("nodes", name, metadata=metadata, spec={}, status=status)
    taken = [[{"uuid": "GPU-0", "compute": 60, "vRam": 4096}]]
    await pod(server, "m", "n0-0-0", {"metax-tech.com/sgpu": "1"}, **{
        "metax-tech.com/gpu-devices-allocated": json.dumps(taken)
    })  # fmt: skip
    await pod(server, "v", "n0-0-1", {"volcano.sh/vgpu-number": "1"}, **{
        "volcano.sh/vgpu-ids-new": "GPU-b,NVIDIA,8192,40:"
    })  # fmt: skip
    await pod(server, "t", "n0-1-0", {CORE: "50", MEMORY: "16"}, **{
        "tencent.com/predicate-gpu-idx-0": "1"
    })  # fmt: skip


async def pod(
    server: FakeServer, name: str, node: str, limits: dict[str, str], **annotations: str
) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"limits": limits}}]}
    if node:
        spec["nodeName"] = node
    metadata = {"uid": f"uid-{name}", "annotations": annotations}
    await server.put("pods", name, "jobs", metadata=metadata, spec=spec, status={})
    return {"metadata": {**metadata, "name": name, "namespace": "jobs"}, "spec": spec}


def leaves(groups: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for vertex in groups:
        found |= {vertex["name"]: vertex} if vertex["kind"] == "node" else leaves(vertex["child"])
    return found


async def test_each_card_is_shown_with_what_pods_have_of_it_in_its_own_units(
    tmp_path: Path,
) -> None:
    async with fake_server() as server:
        await cluster(server)
        async with asked(server, tmp_path) as asking:
            await asyncio.sleep(2)
            nodes = leaves((await asking.master.get("/v1/topology")).json["groups"])
            cards = {name: node.get("cards", []) for name, node in nodes.items()}
            metax, volcano, manager = cards["n0-0-0"], cards["n0-0-1"], cards["n0-1-0"]
            assert "cards" not in nodes["n0-1-1"]
            assert metax[0]["used"] == {"shares": 1, "cores": 60, "memory": 4096}
            assert metax[0]["free"] == {"shares": 15, "cores": 40, "memory": 61440}
            assert metax[1]["free"] == {"shares": 0, "cores": 0, "memory": 0}, "not healthy"
            assert volcano[1]["free"] == {"shares": 9, "cores": 60, "memory": 24576}
            assert manager[1]["free"] == {"shares": 0, "cores": 50, "memory": 104}
            assert all(not nodes[name]["free_gpus"] for name in list(NODES)[:3])
            metrics = (await asking.master.get("/metrics")).body.decode()
            wanted = '{amount="cores",family="gpu-manager",state="free"} 150'
            assert f"topo_master_shared_card_amounts{wanted}" in metrics
            report = (await asking.master.get("/v1/fragmentation")).json["shared"]
            assert [(each["family"], each["cards"], each["idle"]) for each in report] == [
                ("gpu-manager", 2, 1),
                ("metax-sgpu", 2, 0),
                ("volcano-vgpu", 2, 1),
            ]
            # A pod that goes gives back what it had.
            await server.delete("pods", "t", "jobs")
            await asyncio.sleep(2)
            nodes = leaves((await asking.master.get("/v1/topology")).json["groups"])
            assert nodes["n0-1-0"]["cards"][1]["free"]["cores"] == 100


@pytest.mark.parametrize(
    ("query", "node", "cards", "way"),
    [
        ("family=gpu-manager&cores=30&memory=8", "n0-1-0", ["1"], "share"),
        ("family=gpu-manager&cores=100", "n0-1-0", ["0"], "fragment"),
        ("family=volcano-vgpu&cores=20&memory=1024", "n0-0-1", ["GPU-b"], "binpack"),
        ("family=volcano-vgpu&cores=20&memory=1024&policy=spread", "n0-0-1", ["GPU-a"], "spread"),
        ("family=metax-sgpu&cores=40&memory=1024", "n0-0-0", ["GPU-0"], "binpack"),
    ],
)
async def test_a_pod_is_told_the_card_it_should_get(
    query: str, node: str, cards: list[str], way: str, tmp_path: Path
) -> None:
    async with fake_server() as server:
        await cluster(server)
        async with asked(server, tmp_path) as asking:
            await asyncio.sleep(2)
            answer = (await asking.master.get(f"/v1/shared-cards?{query}")).json
            assert answer["choices"] == [{"node": node, "cards": cards, "score": 10, "way": way}]
            alone = (await asking.master.get("/v1/shared-cards?family=metax-sgpu")).json
            assert alone["why"].startswith("no node has 1 card idle: ")
            assert alone["why"].endswith(", at most 0 on one node")
            none = (await asking.master.get("/v1/shared-cards?family=metax-sgpu&cores=41")).json
            assert none["choices"] == []
            assert "the most that one has free are 40 cores" in none["why"]
            bad = await asking.master.get("/v1/shared-cards?cores=30")
            assert bad.json["fix"] == "family is one of volcano-vgpu, metax-sgpu, gpu-manager"
            wrong = await asking.master.get("/v1/shared-cards?family=gpu-manager&cores=250")
            assert wrong.status == 400
            assert "multiple of it, such as 200 or 300" in wrong.json["fix"]
            waits = await pod(server, "w", "", {"volcano.sh/vgpu-number": "1"})
            await asyncio.sleep(1)
            question = {"Pod": waits, "NodeNames": ["n0-0-0", "n0-0-1"]}
            ranked = await asking.ask("prioritize", question)
            assert ranked == [{"Host": "n0-0-0", "Score": 0}, {"Host": "n0-0-1", "Score": 10}]


async def test_parts_of_cards_under_the_name_of_whole_gpus_are_parts(tmp_path: Path) -> None:
    """As where Volcano's plugin runs with `--resource-name=nvidia.com/gpu`: ten for each card."""
    async with fake_server() as server:
        devices = {
            "nvidia.com/gpu": "20",
            "volcano.sh/vgpu-number": "0",
            "volcano.sh/vgpu-cores": "200",
            "volcano.sh/vgpu-memory": "65536",
        }
        status = {"allocatable": devices, "conditions": [READY]}
        metadata = {"annotations": {"volcano.sh/node-vgpu-register": REGISTER}}
        await server.put("nodes", "n0-0-0", metadata=metadata, spec={}, status=status)
        await pod(server, "v", "n0-0-0", {"nvidia.com/gpu": "2"}, **{
            "volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,32768,100:GPU-b,NVIDIA,32768,100:"
        })  # fmt: skip
        async with asked(server, tmp_path) as asking:
            await asyncio.sleep(2)
            found = leaves((await asking.master.get("/v1/topology")).json["groups"])["n0-0-0"]
            assert (found["gpus"], found["free_gpus"], found["used_gpus"]) == (0, 0, 0)
            assert [card["free"]["cores"] for card in found["cards"]] == [0, 0]
            answer = (await asking.master.get("/v1/shared-cards?family=volcano-vgpu")).json
            assert answer["choices"] == []


async def test_a_text_that_is_no_register_counts_nothing_and_is_said(tmp_path: Path) -> None:
    async with fake_server() as server:
        annotations = {"volcano.sh/node-vgpu-register": "GPU-a,ten,1,V100,true,hami-core:"}
        status = {"allocatable": {"volcano.sh/vgpu-number": "10"}, "conditions": [READY]}
        metadata = {"annotations": annotations}
        await server.put("nodes", "n0-0-0", metadata=metadata, spec={}, status=status)
        async with asked(server, tmp_path) as asking:
            await asyncio.sleep(2)
            answer = (await asking.master.get("/v1/topology")).json
            assert "cards" not in leaves(answer["groups"])["n0-0-0"]
            said = [w["text"] for source in answer["sources"] for w in source["warnings"]]
            assert any("its shared cards are not counted" in text for text in said)
