"""UFM's links, polled through a mapping file: the fabric that a dump of the same cables is."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from master.composition.service import build_service
from master.sources.row import SourceContext
from master.sources.table import SOURCE_ROWS, source_works
from tests.master.sources.test_fabric_files import (
    BOTH,
    is_content,
    reported,
    shows,
    source_of,
    warned,
)
from tests.master.wiring.test_check import counts
from tests.master.world import Master, running, settings
from tests.support.fabric import Built, pairs, rails
from tests.support.waiting import eventually
from topo.model.errors import BadInputError
from topo.sim.ufm import SimulatedUfm, ufm

pytestmark = pytest.mark.virtual_time

SOON_S = 4.0
"""A poll, a look, and a wait after a failure: of virtual time, which costs less than to look."""
REFUSED_S = 31.0
"""So long nobody comes back who was refused."""
EXAMPLE = Path(__file__).parents[3] / "examples/managers/ufm.yaml"
MOVED = {"ib-su1-leaf-01": ["gpu-01"], "ib-su2-leaf-01": ["gpu-02", "gpu-03", "gpu-04"]}


def mapping(**changes: Any) -> dict[str, Any]:
    """The example without its way by ports, with these sections changed."""
    found: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    del found["topology"], found["sample"]["topology"]
    return {**found, **changes}


@asynccontextmanager
async def polling(
    tmp_path: Path, built: Built, *flags: str, document: Any = None
) -> AsyncIterator[tuple[SimulatedUfm, Master]]:
    """A UFM with these cables, and a master in mode fabric that has no folder and asks it."""
    secret = tmp_path / "secret"
    secret.mkdir()
    account = {"username": "reader", "password": "p:ss", "token": "ufm-token-1"}
    for name, value in account.items():
        (secret / name).write_text(f"{value}\n")
    file = EXAMPLE
    if document is not None:
        file = tmp_path / "mapping.yaml"
        file.write_text(json.dumps(document))
    async with ufm(tmp_path / "ufm", built.fabric.links(), **account) as peer:
        asked = (
            f"--fabric-dir={tmp_path / 'none'}",
            f"--cluster-manager-address={peer.url}",
            f"--cluster-manager-ca-file={peer.ca_file}",
            f"--cluster-manager-mapping-file={file}",
            f"--credentials-dir={secret}",
            "--cluster-manager-poll-topo-period=1",
        )
        async with running(*flags, *asked) as master:
            yield peer, master


def moved(built: Built) -> str:
    """The links once gpu-02 hangs on the other leaf."""
    guid = built.adapters["gpu-02"][0]
    built.fabric.cut(guid)
    built.fabric.plug(guid, built.leaves["ib-su2-leaf-01"])
    return built.fabric.links()


@pytest.mark.parametrize("kind", ["basic", "token"])
async def test_the_links_of_a_ufm_make_the_tree_and_a_moved_cable_follows(
    tmp_path: Path, token_flag: str, kind: str
) -> None:
    """By the example, and by a token; joined by GUID: the adapter of gpu-03 names no host."""
    built = pairs(2)
    plan = tmp_path / "plan.txt"
    plan.write_text(built.text())
    nameless = built.adapters["gpu-03"][0]
    built.fabric.devices[nameless] = replace(
        built.fabric.devices[nameless], description="MT4129 ConnectX7   Mellanox"
    )
    document = None
    if kind == "token":
        path = {"path": "/ufmRestV3/resources/links", "format": "ufm-links"}
        document = mapping(auth={"kind": "token", "prefix": "Basic "}, fabric=path)
    flags = "--mode=fabric", f"--wiring-plan={plan}", token_flag
    async with polling(tmp_path, built, *flags, document=document) as (peer, master):
        await reported(master, built)
        await shows(master, BOTH)
        assert (await source_of(master))["warnings"] == []
        assert (await counts(master, {}))["right"] == 6
        peer.links = moved(built)
        await asyncio.sleep(12)
        await shows(master, MOVED)
        await counts(master, {"wrong-end": 1})
        metrics = (await master.get("/metrics")).body.decode()
        host = "127.0.0.1 " + ("/ufmRestV3" if kind == "token" else "/ufmRest")
        assert f'topo_master_fabric_dump_age_seconds{{dump="{host}/resources/links"}} ' in metrics
        for result in ("changed", "unchanged"):
            labels = f'{{asked="fabric",result="{result}"}}'
            assert f"topo_master_cluster_manager_polls_total{labels} " in metrics
        sources = (await master.get("/v1/topology")).json["sources"]
        assert "cluster-manager" not in {each["source"] for each in sources}


async def test_an_answer_that_is_no_whole_fabric_is_told_and_takes_nothing_away(
    tmp_path: Path, token_flag: str
) -> None:
    """Also after a start: the source fails with the next step until the first whole answer."""
    built = pairs(2)
    whole = built.fabric.links()
    faults: tuple[tuple[web.Response, str], ...] = (
        (web.Response(status=503, headers={"Retry-After": "1"}), "busy (503)"),
        (web.Response(status=404), "answers 404"),
        (web.Response(text=whole[: len(whole) // 2]), "no whole JSON"),
        (web.Response(text="[]"), "no link of a switch"),
        (web.Response(text="<html>log in</html>"), "no whole JSON"),
        (web.Response(text=built.text()), "no whole JSON"),
    )
    async with polling(tmp_path, built, "--mode=fabric", token_flag) as (peer, master):
        peer.interrupt = lambda: web.Response(status=401)

        async def is_failing() -> bool:
            found = await source_of(master)
            return "refuses us (401)" in (found.get("trouble") or "")

        await asyncio.sleep(SOON_S)
        await eventually(is_failing)
        assert "cluster manager" in (await source_of(master))["fix"]
        peer.interrupt = lambda: None
        await asyncio.sleep(REFUSED_S)
        await reported(master, built)
        await shows(master, BOTH)
        for answer, words in faults:
            peer.interrupt = lambda answer=answer: _again(answer)  # type: ignore[misc]
            await asyncio.sleep(SOON_S)
            await warned(master, words)
            await shows(master, BOTH)
            peer.interrupt = lambda: None
            await asyncio.sleep(SOON_S)
            await is_content(master)
        peer.links = moved(built)
        await asyncio.sleep(SOON_S)
        await shows(master, MOVED)


def _again(answer: web.Response) -> web.Response:
    return web.Response(body=answer.body, status=answer.status, headers=answer.headers)


async def test_a_polled_fabric_of_rails_is_the_tree_that_its_dump_makes(
    tmp_path: Path, token_flag: str
) -> None:
    built = rails([["a", "b", "c"], ["d", "e"]], 4, 2)
    (tmp_path / "fabric").mkdir()
    (tmp_path / "fabric/subnet.txt").write_text(built.text())
    trees = []
    async with running("--mode=fabric", f"--fabric-dir={tmp_path / 'fabric'}", token_flag) as other:
        await reported(other, built)
        trees.append(await other.tree())
    rule = {"path": "/ufmRest/resources/links", "format": "ibnetdiscover"}
    same = mapping(fabric=rule, sample={"fabric": built.text()})
    for folder, document in (("links", None), ("text", same)):
        (tmp_path / folder).mkdir()
        there = polling(tmp_path / folder, built, "--mode=fabric", token_flag, document=document)
        async with there as (peer, master):
            peer.links = peer.links if document is None else built.text()
            await reported(master, built)
            trees.append(await master.tree())
    assert trees[0] == trees[1] == trees[2]
    assert len(json.dumps(trees[0])) > 200


async def test_one_answer_of_a_manager_is_its_groups_and_its_fabric(
    tmp_path: Path, token_flag: str
) -> None:
    """Both sections at one path, beside dragonflies: each source is well, and asked for itself."""
    built = pairs(2)
    ends = {"id": "source_port_name", "names": {"hostname": "source_port_node_description"}}
    document = mapping()
    document["topology"] = {**document["fabric"], "machines": [{"each": "[]", **ends}]}
    del document["topology"]["format"]
    document["sample"]["topology"] = document["sample"]["fabric"]
    flags = "--mode=dragonfly", "--precedence=manager,fabric", token_flag
    async with polling(tmp_path, built, *flags, document=document) as (peer, master):
        await reported(master, built)

        async def both_are_well() -> bool:
            sources = (await master.get("/v1/topology")).json["sources"]
            well = {each["source"] for each in sources if each["state"] == "ok"}
            return {"cluster-manager", "fabric"} <= well

        await asyncio.sleep(SOON_S)
        await eventually(both_are_well)
        assert peer.asked > 2


@pytest.mark.parametrize(
    ("document", "mode", "words"),
    [
        (mapping(), ("--mode=switchbox",), "has no section topology"),
        (mapping(), ("--mode=dragonfly", "--precedence=manager,fabric"), "no section topology"),
        (mapping(fabric=None), ("--mode=fabric",), "there is no topology: nothing is read"),
        (None, ("--mode=fabric",), "has no section fabric"),
    ],
)
def test_a_mapping_file_that_the_mode_cannot_use_is_refused_at_the_start(
    tmp_path: Path, document: Any, mode: tuple[str, ...], words: str
) -> None:
    file = tmp_path / "mapping.yaml"
    if document is None:
        document = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
        del document["fabric"]
    file.write_text(yaml.safe_dump(document))
    address = "--cluster-manager-address=https://ufm.example.com"
    service = build_service(settings(*mode, address, f"--cluster-manager-mapping-file={file}"))
    context = SourceContext(service.settings, service.engine, service.registry, service.sweeps)
    with pytest.raises(BadInputError, match=words):
        source_works(SOURCE_ROWS, context)
