"""A network that ends all connections to the API server each second."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from bench.machine import usage
from tests.chaos.ports import own_ports
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account
from tests.e2e.controlplane.core import LOOPBACK
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.kubernetes.forest_master import (
    FLY,
    RULES,
    VENDOR,
    ForestMaster,
    Tree,
    forest_master,
    hypernodes,
    labels,
    wanted_hypernodes,
    wanted_labels,
)
from tests.e2e.kubernetes.test_capacity import pod, recount
from tests.support.relay import Relay, relay_to
from tests.support.waiting import eventually_nothing
from topo.sim.worlds.presets import World

CUTS, EVERY_S = 25, 0.95
"""Sooner than a watch counts as healthy, so that the waits between two grow, too."""
CHANGES = 8
KINDS = ("nodes", "pods", "hypernodes")
CORES = 0.5
ACCOUNT = "cut-off"
MOVED: Tree = {
    **VENDOR,
    "switchbox-1": {
        "dragonfly-1": ["node-sample1", "node-sample3"],
        "dragonfly-2": ["node-sample2", "node-sample4"],
    },
}


async def test_what_is_shown_and_written_stays_right_through_cuts_and_nothing_is_listed_anew(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path, world: World
) -> None:
    names = [str(host.name) for host in world.nodes]
    await service_account(api, namespace, ACCOUNT, RULES)
    access = await account_access(cluster, namespace, ACCOUNT)
    async with relay_to(cluster.ports.api) as relay, ClientSession() as session:
        through = replace(access, server=f"https://{LOOPBACK}:{relay.port}")
        kubeconfig = through.kubeconfig(tmp_path / "through-the-relay")
        with own_ports() as ports:
            url = f"http://{LOOPBACK}:{ports[0]}/v1/topology"
            flags = (f"--kubeconfig={kubeconfig}", f"--server-port={ports[0]}")
            async with forest_master(cluster, namespace, tmp_path, VENDOR, *flags) as master:

                async def differences(tree: Tree) -> list[str]:
                    counted = {n: (c.free, c.used) for n, c in (await recount(api)).items()}
                    pairs: tuple[tuple[Any, Any], ...] = (
                        (await _told(session, url), counted),
                        (await labels(api), wanted_labels(tree, names)),
                        (await hypernodes(api), wanted_hypernodes(tree)),
                    )
                    return [
                        f"{name}: {said.get(name)} and not {right.get(name)}"
                        for said, right in pairs
                        for name in sorted(said.keys() | right.keys())
                        if said.get(name) != right.get(name)
                    ]

                await eventually_nothing(partial(differences, VENDOR))
                before, used = _asked(cluster, namespace), usage(master.program.pid)
                cutting, tree = asyncio.create_task(_cut(relay)), VENDOR
                for number in range(CHANGES):
                    tree = (MOVED, VENDOR)[number % 2]
                    await _change(api, master, namespace, number, tree)
                    await asyncio.sleep(EVERY_S * CUTS / CHANGES)
                await cutting
                await eventually_nothing(partial(differences, tree))
                master.program.must_live()
                cores = usage(master.program.pid).cores_since(used)
    asked = _asked(cluster, namespace) - before
    print(f"{CUTS} cuts, {cores:.2f} cores, {dict(asked)}")
    assert all(asked["watch", kind] > 1 for kind in KINDS), "they were not cut"
    assert sum(asked["list", kind] for kind in KINDS) <= len(KINDS)
    assert cores < CORES


async def _cut(relay: Relay) -> None:
    for _ in range(CUTS):
        await asyncio.sleep(EVERY_S)
        relay.cut()


async def _change(api: Api, master: ForestMaster, namespace: str, number: int, tree: Tree) -> None:
    """Another tree, a pod more or less, a cordon, and a label that somebody edits."""
    master.declare(tree)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await api.create(pods, pod(f"p{number}", 2))
    await api.delete(f"{pods}/p{number - 3}", grace_s=0)
    cordon = {"spec": {"unschedulable": number % 2 == 0}}
    await api.merge(f"{NODES}/node-sample{5 + number % 3}", cordon)
    edited = {"metadata": {"labels": {FLY: None if number % 2 else "elsewhere"}}}
    await api.merge(f"{NODES}/node-sample8", edited)


async def _told(session: ClientSession, url: str) -> dict[str, tuple[int, int]]:
    """(free, used) of each node by the master; nothing while it does not answer."""
    with suppress(OSError):
        async with session.get(url) as answer:
            document = await answer.json()
        return {
            each["name"]: (each["free_gpus"], each["used_gpus"])
            for each in _nodes([*document["groups"], *document["unplaced"]])
        }
    return {}


def _nodes(vertices: list[Any]) -> Iterator[Any]:
    for each in vertices:
        if each["kind"] == "node":
            yield each
        yield from _nodes(each.get("child", []))


def _asked(cluster: Cluster, namespace: str) -> Counter[tuple[str, str]]:
    """How often the master has begun a list or a watch, by kind."""
    calls = cluster.calls(f"{namespace}:{ACCOUNT}")
    return Counter((call.verb, call.resource) for call in calls if call.verb in {"list", "watch"})
