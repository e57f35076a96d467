"""Several fabrics by the API of a running master: their list, each of them, a node's groups."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.master.documents import read
from tests.master.world import Master, facts, running
from tests.support.fabric import Built, rails
from tests.support.waiting import eventually
from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Reason
from topo.model.machine import NetworkPort
from topo.model.rest.topology import TopologyDocument, is_group, walk

pytestmark = pytest.mark.virtual_time

PEERS = {"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]}
"""Two dragonflies of two nodes, each across two leaves."""


async def told(master: Master, built: Built, peers: dict[str, list[str]]) -> TopologyDocument:
    """What the master answers, and keeps, once every worker has reported and the dump is read."""
    for host, guids in built.adapters.items():
        nics = tuple(NetworkPort(f"mlx5_{n}", 1, up=True, node_guid=g) for n, g in enumerate(guids))
        said = replace(facts(host, *peers.get(host, ())), nics=nics)
        assert (await master.worker(host).full(said)).status == 200

    async def is_whole() -> bool:
        document = (await master.get("/v1/topology")).json
        return len(document["groups"]) == 1 and len(document.get("fabrics", [0, 0])) == 2

    async def is_kept() -> bool:
        now = (await master.get("/v1/topology")).json
        return (await master.get(f"/v1/topology?at={now['generation']}.{now['run']}")).status == 200

    await eventually(is_whole)
    await eventually(is_kept)
    return read(TopologyDocument, await master.get("/v1/topology"))


def groups(document: TopologyDocument) -> dict[str, list[str]]:
    """The nodes by group, of groups of nodes."""
    found: dict[str, list[str]] = {}
    for path, vertex in walk(document["groups"]):
        if not is_group(vertex):
            found.setdefault(path[-2].partition("-")[0], []).append(vertex["name"])
    return found


async def kept(master: Master, path: str) -> TopologyDocument:
    """The tree of a moment, once it is kept."""

    async def is_kept() -> bool:
        return (await master.get(path)).status == 200

    await eventually(is_kept)
    return read(TopologyDocument, await master.get(path))


async def test_each_fabric_is_shown_by_its_name_now_and_of_a_moment(
    tmp_path: Path, token_flag: str
) -> None:
    built = rails([["a", "c"], ["b", "d"]], 1)
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    (dumps / "subnet.txt").write_text(built.text())
    async with running("--mode=fabric", f"--fabric-dir={dumps}", token_flag) as master:
        whole = await told(master, built, PEERS)
        assert whole["fabrics"] == [
            {
                "fabric": "scale-out",
                "kinds": ("spine", "leaf"),
                "groups": 3,
                "nodes": 4,
                "source": "",
                "unplaced": (),
                "reason": None,
            },
            {
                "fabric": "scale-up",
                "kinds": ("dragonfly",),
                "groups": 2,
                "nodes": 4,
                "source": "workers",
                "unplaced": (),
                "reason": Reason.of(NodeCondition.NO_FABRIC),
            },
        ]
        answer = await master.get("/v1/topology?fabric=scale-up")
        beside = read(TopologyDocument, answer)
        assert (beside["fabric"], beside["generation"]) == ("scale-up", whole["generation"])
        flies = [(g["kind"], [n["name"] for n in g["child"]]) for g in beside["groups"]]
        assert flies == [("dragonfly", ["a", "b"]), ("dragonfly", ["c", "d"])]
        assert [g["capacity"]["gpus"] for g in beside["groups"]] == [2, 2]
        again = await master.get(
            "/v1/topology?fabric=scale-up", If_None_Match=answer.headers["ETag"]
        )
        assert again.status == 304
        moment = f"&at={whole['generation']}.{whole['run']}"
        assert groups(await kept(master, f"/v1/topology?fabric=scale-up{moment}")) == groups(beside)
        diff = (await master.get("/v1/topology/diff?from=0")).json["changes"]
        moves = {each["subject"]: each for each in diff if each["what"] == "fabric-moved"}
        assert {name: each["fabric"] for name, each in moves.items()} == dict.fromkeys(
            "abcd", "scale-up"
        )
        assert moves["a"]["after"] == moves["b"]["after"] == beside["groups"][0]["name"]
        come = [each for each in diff if each["what"] == "fabric-group-added"]
        assert {(each["subject"], each["after"], each["fabric"]) for each in come} == {
            (group["name"], "dragonfly", "scale-up") for group in beside["groups"]
        }
        tree = read(TopologyDocument, await master.get("/v1/topology?fabric=scale-out"))
        assert groups(tree) == groups(whole)
        name = beside["groups"][0]["name"]
        one = read(TopologyDocument, await master.get(f"/v1/topology?fabric=scale-up&group={name}"))
        assert [each["name"] for each in one["groups"]] == [name]
        for query, fabric, group in (("?fabric=scale-up", "scale-up", name), ("", "scale-out", "")):
            graph = (await master.get(f"/v1/topology/graph{query}")).json
            assert graph["graph"]["fabric"] == fabric
            assert any(vertex["name"] == group for vertex in graph["nodes"]) is bool(group)
        assert (await master.get("/v1/topology/graph?fabric=x")).status == 404
        job = "pods=2&gpus_per_pod=1&group_size=1&within=dragonfly"
        placed = (await master.get(f"/v1/placements?{job}")).json
        pair = [node["name"] for group in placed["groups"] for node in group["nodes"]]
        assert pair in (["a", "b"], ["c", "d"]), "of two leaves, and on one dragonfly"
        fly = beside["groups"]["ab" not in "".join(pair)]["name"]
        inside = {"kind": "dragonfly", "name": fly, "path": [fly], "fabric": "scale-up"}
        assert placed["inside"] == inside
        assert "inside" not in (await master.get("/v1/placements?pods=2&gpus_per_pod=1")).json
        refused = await master.get("/v1/placements?pods=3&gpus_per_pod=1&within=dragonfly")
        assert "no dragonfly can take" in str(refused.json).lower()
        unknown = await master.get("/v1/topology?fabric=scaleup")
        assert (unknown.status, unknown.json["field"]) == (404, "fabric")
        assert "scale-up" in unknown.json["fix"]
        asked = read(TopologyDocument, await master.get("/v1/topology?node=a"))
        assert asked["node"] is not None
        places = [(each["fabric"], each["kinds"]) for each in asked["node"]["places"]]
        assert places == [("scale-out", ("spine", "leaf")), ("scale-up", ("dragonfly",))]


async def test_where_one_fabric_is_known_no_answer_says_more(
    tmp_path: Path, token_flag: str
) -> None:
    built = rails([["a", "c"], ["b", "d"]], 1)
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    (dumps / "subnet.txt").write_text(built.text())
    async with running("--mode=fabric", f"--fabric-dir={dumps}", token_flag) as master:
        await told(master, built, {})
        assert "fabrics" not in (await master.get("/v1/topology")).json
        assert "fabric" not in (await master.get("/v1/topology/graph")).json["graph"]
        assert "places" not in (await master.get("/v1/topology?node=a")).json["node"]
        diff = (await master.get("/v1/topology/diff?from=0")).json["changes"]
        assert diff
        assert not any("fabric" in each for each in diff)
        assert (await master.get("/v1/topology?fabric=scale-out")).status == 200
        none = await master.get("/v1/topology?fabric=scale-up")
        assert (none.status, "leave `fabric` out" in none.json["fix"]) == (404, True)
