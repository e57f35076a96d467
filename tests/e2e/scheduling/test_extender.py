"""A real kube-scheduler that asks the master: whole groups without a webhook, and GPU quotas."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.processes import Program
from tests.e2e.controlplane.programs import KUBE
from tests.e2e.scheduling.elected_masters import elected_masters
from tests.e2e.scheduling.gang_master import GangMaster, document, gang_master
from tests.e2e.scheduling.jobs import (
    BATCH_JOBS,
    GPU,
    NODES,
    PODS,
    WORDS,
    are_whole,
    bound,
    homes,
    pods_of,
    taker,
)
from tests.e2e.scheduling.tour import half_of_first
from tests.kube.credentials.test_access import client_certificate
from tests.support.waiting import eventually
from topo.sim.certificates import Authority
from topo.sim.worlds.presets import World

NAME = "asking"
PORT = 3456
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
MODEL, POOL = "gaia.tencent.com/gpu-model", "gaia.tencent.com/gpu-pool"


@pytest.fixture
async def master(cluster: Cluster, world: World, tmp_path: Path) -> AsyncIterator[GangMaster]:
    """A master that schedulers ask, with a token for nothing."""
    flags = ("--extender=on", "--extender-port=0", "--controllers=none")
    async with gang_master(cluster, world, tmp_path, *flags) as running:
        await eventually(lambda: bool(extender_url(running)))
        yield running
        print(running.program.log.read_text()[-6000:])  # shown where the test fails


def extender_url(master: GangMaster) -> str:
    """Where its extender is, as its log says; empty while it does not listen."""
    for told in master.program.events:
        if (told.get("event"), told.get("site")) == ("listening", "extender"):
            scheme = "https" if told["tls"] else "http"
            return f"{scheme}://{told['host']}:{told['port']}/scheduler"
    return ""


@pytest.fixture
async def scheduler(cluster: Cluster, master: GangMaster, tmp_path: Path) -> AsyncIterator[None]:
    """A second kube-scheduler that asks the master."""
    with asking_scheduler(cluster, tmp_path, extender_url(master)):
        yield


@contextmanager
def asking_scheduler(
    cluster: Cluster, home: Path, url: str, tls: Mapping[str, str] | None = None
) -> Iterator[None]:
    """A second kube-scheduler, configured as docs/extenders.md says, until the block ends."""
    common: dict[str, Any] = {"httpTimeout": "5s", "ignorable": False}
    if tls is not None:
        common |= {"enableHTTPS": True, "tlsConfig": dict(tls)}
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(cluster.files.kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": NAME}],
        "extenders": [
            {
                "urlPrefix": url,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "weight": 100,
                "nodeCacheCapable": True,
                **common,
            },
            {"urlPrefix": url, "filterVerb": "predicates", "nodeCacheCapable": False, **common},
        ],
    }
    file = home / "scheduler.yaml"
    file.write_text(yaml.safe_dump(configuration))
    argv = (str(KUBE.program("kube-scheduler")), f"--config={file}", "--secure-port=0")
    program = Program("asking-scheduler", argv, home / "scheduler.log")
    program.start()
    try:
        yield
    finally:
        program.stop()


def job(name: str, pods: int, size: int, gpus: int = 8) -> dict[str, Any]:
    """An Indexed Job as its user writes it: no webhook has seen it."""
    amounts = {GPU: gpus}
    container = {
        "name": "main",
        "image": "a",
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completions": pods,
            "parallelism": pods,
            "completionMode": "Indexed",
            "template": {
                "metadata": {"annotations": {WORDS.size: str(size)}},
                "spec": {
                    "schedulerName": NAME,
                    "restartPolicy": "Never",
                    "containers": [container],
                },
            },
        },
    }


async def message(api: Api, pod: str) -> str:
    """Why its scheduler does not bind a pod."""
    found = (await api.get(f"{PODS}/{pod}")).get("status", {}).get("conditions", ())
    return next((each.get("message", "") for each in found if each["type"] == "PodScheduled"), "")


@pytest.mark.usefixtures("scheduler")
async def test_groups_are_bound_whole_a_lost_pod_comes_back_and_no_room_is_said(
    api: Api, world: World
) -> None:
    for node in half_of_first(world):
        await api.create(PODS, taker(f"taker-{node}", node))
    await api.create(BATCH_JOBS, job("train", 8, 16))
    await eventually(lambda: bound(api, "train", 8))
    seen = await pods_of(api, "train")
    nodes = [each.node for each in seen]
    assert are_whole(world, "dragonfly", nodes, 2)
    assert len(set(nodes)) == 8
    # One of them is lost: the Job makes it again, and it goes beside its group.
    await api.delete(f"{PODS}/{seen[2].name}")
    await eventually(lambda: _again(api, seen[2].name))
    again = [each.node for each in await pods_of(api, "train")]
    assert again == nodes
    # A job whose groups fit nowhere is told so in the words of its scheduler.
    await api.create(BATCH_JOBS, job("large", 16, 128))
    await eventually(lambda: _says(api, "large", "topo: "))
    assert not any(each.node for each in await pods_of(api, "large"))


async def _again(api: Api, gone: str) -> bool:
    pods = await pods_of(api, "train")
    return gone not in {each.name for each in pods} and sum(bool(p.node) for p in pods) == 8


async def _says(api: Api, name: str, text: str) -> bool:
    waiting = [each for each in await pods_of(api, name) if not each.node]
    return bool(waiting) and text in await message(api, waiting[0].name)


SERVER = "topo-master-extender.metax-operator.svc"


async def test_over_tls_a_scheduler_is_answered_once_it_shows_its_certificate(
    api: Api, cluster: Cluster, world: World, tmp_path: Path
) -> None:
    """Before, its pods wait, and their events have the status."""
    servers, clients = (Authority.at(tmp_path / name) for name in ("servers", "clients"))
    cert, key = servers.leaf("port", SERVER)
    flags = (
        *("--extender=on", "--extender-port=0", "--controllers=none"),
        *(f"--extender-tls-cert={cert}", f"--extender-tls-key={key}"),
        f"--extender-client-ca={clients.certificate_file}",
        "--extender-client-names=system:kube-scheduler",
    )
    trust = {"caFile": str(servers.certificate_file), "serverName": SERVER}
    shown = client_certificate(clients, "system:kube-scheduler")
    own = dict(zip(("certFile", "keyFile"), map(str, shown), strict=True))
    async with gang_master(cluster, world, tmp_path, *flags) as running:
        await eventually(lambda: bool(extender_url(running)))
        url = extender_url(running)
        assert url.startswith("https://")
        with asking_scheduler(cluster, tmp_path, url, trust):
            await api.create(BATCH_JOBS, job("train", 4, 16))
            await eventually(lambda: _says(api, "train", "401"))
            assert not any(each.node for each in await pods_of(api, "train"))
        with asking_scheduler(cluster, tmp_path, url, {**trust, **own}):
            await eventually(lambda: bound(api, "train", 4))
        nodes = [each.node for each in await pods_of(api, "train")]
        assert are_whole(world, "dragonfly", nodes, 2)
        running.program.must_live()


VGPU, CORES, MEMORY = (f"volcano.sh/vgpu-{each}" for each in ("number", "cores", "memory"))
REGISTER = "volcano.sh/node-vgpu-register"
IDS = "volcano.sh/vgpu-ids-new"


@pytest.mark.usefixtures("scheduler")
async def test_a_pod_of_one_card_goes_where_the_hint_says_and_no_group_gets_such_a_node(
    api: Api, world: World, master: GangMaster
) -> None:
    """Two nodes whose device plugin publishes shared cards; a card of the second is half used."""
    idle, used = (str(host.name) for host in world.nodes[:2])
    amounts = {VGPU: "20", CORES: "200", MEMORY: "65536", GPU: "8"}
    for node in (idle, used):
        cards = "".join(f"{node}-{at},10,32768,V100,true,hami-core:" for at in "ab")
        await api.merge(f"{NODES}/{node}", {"metadata": {"annotations": {REGISTER: cards}}})
        status = {"capacity": amounts, "allocatable": amounts}
        await api.merge(f"{NODES}/{node}/status", {"status": status})
    try:
        first = sharing("first", 50, node=used)
        await api.create(PODS, {**first, "metadata": {**first["metadata"], "annotations": {
            IDS: f"{used}-b,NVIDIA,16384,50:"
        }}})  # fmt: skip
        await eventually(lambda: _is_counted(master))
        await api.create(PODS, sharing("second", 30))
        await eventually(lambda: _is_on(api, "second", used))
        # Kubernetes counts eight free whole GPUs on both nodes.
        others = len(world.nodes) - 2
        await api.create(BATCH_JOBS, job("others", others, 16))
        await eventually(lambda: bound(api, "others", others))
        assert not {each.node for each in await pods_of(api, "others")} & {idle, used}
        await api.create(BATCH_JOBS, job("more", 2, 16))
        await eventually(lambda: _says(api, "more", "topo: "))
        assert not any(each.node for each in await pods_of(api, "more"))
    finally:
        for node in (idle, used):
            gone = dict.fromkeys((VGPU, CORES, MEMORY))
            undone = {"capacity": gone, "allocatable": gone}
            await api.merge(f"{NODES}/{node}/status", {"status": undone})


def sharing(name: str, cores: int, *, node: str = "") -> Any:
    """A pod that asks for a part of one card."""
    limits = {VGPU: 1, CORES: cores, MEMORY: 4096}
    container = {"name": "main", "image": "a", "resources": {"limits": limits}}
    spec = {"containers": [container], **({"nodeName": node} if node else {"schedulerName": NAME})}
    return {"metadata": {"name": name}, "spec": spec}


async def _is_counted(master: GangMaster) -> bool:
    async with ClientSession() as session, session.get(f"{master.url}/v1/shared-cards") as answer:
        families = (await answer.json())["families"] if answer.ok else ()
    return [(each["cards"], each["idle"]) for each in families] == [(4, 3)]


async def _is_on(api: Api, pod: str, node: str) -> bool:
    return bool((await api.get(f"{PODS}/{pod}"))["spec"].get("nodeName") == node)


@pytest.mark.usefixtures("scheduler")
async def test_a_namespace_gets_no_more_cards_than_its_quota_and_only_in_its_pool(
    api: Api, world: World
) -> None:
    box = homes(world, "switchbox")
    first = min(box.values())
    async with quota(api, 16, [node for node, home in box.items() if home == first]):
        await api.create(BATCH_JOBS, job("within", 2, 16))
        await eventually(lambda: bound(api, "within", 2))
        assert {box[each.node] for each in await pods_of(api, "within")} == {first}
        await api.create(BATCH_JOBS, job("beyond", 2, 16))
        await eventually(lambda: _says(api, "beyond", "ExceedsGPUQuota"))
        assert not any(each.node for each in await pods_of(api, "beyond"))


async def test_behind_a_service_of_two_masters_no_pod_is_stuck_or_over_quota_where_the_leader_dies(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    """The Service leads each connection to the next master: the follower is asked as well."""
    (tmp_path / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
    flags = ("--extender=on", "--placement=off", "--controllers=none")
    async with (
        elected_masters(cluster, api, tmp_path, *flags, rendering="extender", port=PORT) as both,
        quota(api, 12 * 8, list(homes(world, "switchbox"))),
    ):
        await eventually(both.has_leader)
        with asking_scheduler(cluster, tmp_path, f"http://{both.service}:{PORT}/scheduler"):
            for burst, jobs in enumerate((("first", "second"), ("third", "fourth"))):
                if burst:
                    await both.kill_leader()
                for name in jobs:
                    await api.create(BATCH_JOBS, job(name, 2, 16))
                for name in jobs:
                    await eventually(partial(bound, api, name, 2))
                    nodes = [each.node for each in await pods_of(api, name)]
                    assert are_whole(world, "dragonfly", nodes, 2)
                # After them: pods that are scheduled first would have the cards of the last pair.
                await api.create(BATCH_JOBS, job(f"single-{burst}", 2 + burst, 8))
            await eventually(lambda: _says(api, "single-1", "ExceedsGPUQuota"))
            bound_ones = [each for each in await api.items(PODS) if "nodeName" in each["spec"]]
            assert len({each["spec"]["nodeName"] for each in bound_ones}) == len(bound_ones) == 12


@asynccontextmanager
async def quota(api: Api, cards: int, nodes: Sequence[str]) -> AsyncIterator[None]:
    """The namespace `default` may have so many cards, in a pool of these nodes."""
    for node in await api.items(NODES):
        name = node["metadata"]["name"]
        labels = {MODEL: "C550", POOL: "public" if name in nodes else "other"}
        await api.merge(f"{NODES}/{name}", {"metadata": {"labels": labels}})
    stated = {"default": {"quota": {"C550": cards}, "pool": ["public"]}}
    data = {"metadata": {"name": "gpuquota"}, "data": {"gpu_quota": json.dumps(stated)}}
    await api.create(CONFIG_MAPS, data)
    try:
        yield
    finally:
        await api.delete(f"{CONFIG_MAPS}/gpuquota")
        for node in await api.items(NODES):
            gone = {"metadata": {"labels": {MODEL: None, POOL: None}}}
            await api.merge(f"{NODES}/{node['metadata']['name']}", gone)
