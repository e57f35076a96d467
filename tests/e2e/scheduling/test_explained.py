"""What a master says of its gangs, in HTTP and on the terminal."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import yaml
from aiohttp import ClientSession

from tests.e2e.controlplane.client import Api
from tests.e2e.scheduling.gang_master import TOKEN, GangMaster
from tests.e2e.scheduling.jobs import JOBS, PODS, bound, events_of, pods_of, taker, volcano_job
from tests.support.waiting import eventually
from topo.cli.client.decoding import decode
from topo.model.rest.gangs import GangDocument, GangsDocument, GangSummary
from topo.sim.worlds.presets import World


async def answered(master: GangMaster, path: str, method: str = "GET") -> Any:
    """The document at a path of the master's API; None while there is none."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        ClientSession(headers=headers) as session,
        session.request(method, f"{master.url}{path}") as answer,
    ):
        return await answer.json() if answer.ok else None


async def topo(master: GangMaster, *words: str) -> str:
    """What `topo` prints beside this master."""
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "topo.cli.main", *words),
        env={**os.environ, "TOPO_MASTER": master.url, "NO_COLOR": "1"},
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await command.communicate()
    return printed.decode()


async def gangs_of(master: GangMaster) -> list[GangSummary]:
    """All gangs that the master tells of."""
    return decode(GangsDocument, await answered(master, "/v1/gangs"))["gangs"]


async def stands(master: GangMaster, job: str) -> str:
    """Where a gang stands; empty where none of the name is known."""
    return next((gang["state"] for gang in await gangs_of(master) if gang["name"] == job), "")


async def test_a_gang_is_told_while_it_waits_and_once_it_runs(
    api: Api, world: World, master: GangMaster
) -> None:
    nodes = [str(host.name) for host in world.nodes]
    for node in nodes[:-7]:
        await api.create(PODS, taker(f"taker-{node}", node))
    await api.create(JOBS, volcano_job("waits", 8, 64))
    await eventually(lambda: bool(master.url))
    await eventually(lambda: _stands(master, "waits", "no-room"))
    (told,) = await gangs_of(master)
    assert (told["there"], told["placed"], told["bound"], told["ahead"]) == (8, 0, 0, 0)
    why = " ".join((await topo(master, "why", "waits")).split())
    assert "default/waits ✗ no-room 8 pods of 8 GPUs in groups of 64" in why
    assert told["text"] in why
    gated = [pod.name for pod in await pods_of(api, "waits")]

    async def pods_are_told() -> bool:
        found = [await events_of(api, name) for name in gated]
        return all("GangDoesNotFit" in events for events in found)

    await eventually(pods_are_told)
    await asyncio.gather(*(api.delete(f"{PODS}/taker-{node}") for node in nodes[:8]))
    await eventually(lambda: _stands(master, "waits", "bound"))
    whole = decode(GangDocument, await answered(master, f"/v1/gangs/{told['id']}"))
    assert {pod["node"] for pod in whole["members"]} == {
        each.node for each in await pods_of(api, "waits")
    }
    (group,) = whole["groups"]
    assert len(group["domains"]) == 1
    pod = whole["members"][3]
    assert f"{pod['node']}" in await topo(master, "why", pod["name"])
    _break(master, str(pod["node"]))
    lost = f"✗ group 0 lost {pod['node']}: the config file says NotReady · for "

    async def loss_is_told() -> bool:
        why = " ".join((await topo(master, "why", "waits")).split())
        return "default/waits ● bound" in why and lost in why

    await eventually(loss_is_told)
    assert f"1 of its nodes is NotReady: {pod['node']}" in await topo(master, "gangs")


def _break(master: GangMaster, node: str) -> None:
    """Let the config file call a node NotReady."""
    path = master.state.parent / "nodegroup.yaml"
    document = yaml.safe_load(path.read_text())
    pending = list(document["group"])
    while pending:
        vertex = pending.pop()
        if vertex["name"] == node:
            vertex["status"] = "NotReady"
        pending += vertex.get("child", ())
    path.write_text(yaml.safe_dump(document))


async def test_gates_are_opened_by_hand_and_the_scheduler_goes_on_alone(
    api: Api, world: World, master: GangMaster, tmp_path: Path
) -> None:
    for host in (world.nodes[0], world.nodes[-1]):  # no switchbox is whole
        await api.create(PODS, taker(f"taker-{host.name}", str(host.name)))
    await api.create(JOBS, volcano_job("stuck", 8, 64))
    await eventually(lambda: bool(master.url))
    await eventually(lambda: _stands(master, "stuck", "no-room"))
    token = tmp_path / "token"
    token.write_text(TOKEN)
    printed = await topo(master, "gates", "open", "stuck", "--token-file", str(token))
    assert printed == "the gates of default/stuck are opened\n"
    await eventually(lambda: bound(api, "stuck", 8))


async def _stands(master: GangMaster, job: str, state: str) -> bool:
    return await stands(master, job) == state
