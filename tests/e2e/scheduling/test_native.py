"""Jobs whose nodes stock Volcano chooses: by groups with its plugin, and told where it is missing.

The cluster's scheduler runs the vendor's configuration, which lacks the plugin; the patch that the
doctor gives is applied to the ConfigMap.
"""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import yaml
from aiohttp import ClientSession

from tests.e2e.controlplane.client import MERGE, Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.volcano import (
    CONFIG_KEY,
    CONFIG_MAP,
    CONFIG_MAPS,
    NAMESPACE,
    config_map,
    vendor_configuration,
)
from tests.e2e.scheduling.admission_master import AdmissionMaster, admission_master
from tests.e2e.scheduling.gang_master import api_url, document
from tests.e2e.scheduling.jobs import GPU, JOBS, PODS, are_whole, events_of, taker
from tests.e2e.scheduling.scheduler_config import commands, configure, topo
from tests.gangs.admission.patching import WORDS, task, volcano
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
POD_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
FLAGS = ("--controllers=nomination,hypernodes", "--placement=native", "--preempt-after=1h")


def native_job(name: str, pods: int, **asked: str) -> Any:
    """Pods of 8 GPUs in groups of 16: a master and workers, as in the vendor's sample."""
    made = volcano(
        task("master", 1, gpu_group_size="16", **asked),
        task("worker", pods - 1),
        schedulerName="volcano",
        minAvailable=pods,
    )
    made["metadata"] = {"name": name}
    for each in made["spec"]["tasks"]:
        (container,) = each["template"]["spec"]["containers"]
        container |= {"name": "main", "image": "alpine:3.19"}
        container["resources"]["requests"] = {GPU: 8}
    return made


async def nodes_of(api: Api, job: str) -> list[str]:
    """The nodes of a job's pods that are bound, by rank."""
    found = []
    for pod in await api.items(PODS, labelSelector=f"volcano.sh/job-name={job}"):
        annotations = pod["metadata"]["annotations"]
        rank = int(annotations[WORDS.rank_offset]) + int(annotations["volcano.sh/task-index"])
        assert "schedulingGates" not in pod["spec"]
        assert pod["metadata"]["labels"][WORDS.group] == str(rank // 2)
        if "nodeName" in pod["spec"]:
            found.append((rank, pod["spec"]["nodeName"]))
    return [node for _, node in sorted(found)]


def url(master: AdmissionMaster) -> str:
    return api_url(master.program)


async def heeding(master: AdmissionMaster) -> str:
    """What the metric says of Volcano's scheduler."""
    async with ClientSession() as session, session.get(f"{url(master)}/metrics") as answer:
        text = await answer.text()
    (state,) = re.findall(r'topo_master_volcano_groups\{.*heeding="(\w+)".*\} 1\.0', text)
    return str(state)


async def is_whole(master: AdmissionMaster, job: str) -> bool:
    """Whether the master has seen that all seven pods are bound and their groups whole."""
    found = {each["name"]: each for each in await gangs(master)}.get(job, {})
    whole = "which it heeds; 7 of 7 pods bound, 4 of 4 groups whole"
    return found.get("state") == "bound" and bool(found["text"].endswith(whole))


async def gangs(master: AdmissionMaster) -> list[Any]:
    """Where its gangs stand."""
    async with ClientSession() as session, session.get(f"{url(master)}/v1/gangs") as answer:
        return list((await answer.json())["gangs"]) if answer.ok else []


async def test_volcano_keeps_groups_whole_once_the_doctors_patch_gives_it_its_plugin(
    cluster: Cluster, api: Api, world: World, scheduler_file: Path, tmp_path: Path
) -> None:
    await api.create(CONFIG_MAPS, config_map(vendor_configuration()))
    for host in world.nodes[:8:2]:  # one of each pair in the first switchbox
        await api.create(PODS, taker(f"taker-{host.name}", str(host.name)))

    async with admission_master(cluster, api, tmp_path, *FLAGS) as master:
        (tmp_path / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))

        async def is_published() -> bool:
            return len(await api.items(HYPERNODES)) == 10

        async def all_bound(job: str, pods: int) -> bool:
            return len(await nodes_of(api, job)) == pods

        async def is_told(job: str) -> bool:
            return "GangGroupsIgnored" in await events_of(api, job)

        async def knows(state: str) -> bool:
            return await heeding(master) == state

        await eventually(is_published)
        await eventually(lambda: knows("ignored"))
        await api.create(JOBS, native_job("unheeded", 3))
        assert any("network-topology-aware" in each for each in api.warnings)
        await eventually(lambda: all_bound("unheeded", 3))
        await eventually(lambda: is_told("unheeded"))
        (told,) = await gangs(master)
        assert told["state"] == ("bound" if told["text"].endswith("whole") else "split")
        assert "in one dragonfly (hard, tier 1), but Volcano's scheduler ignores" in told["text"]
        await api.delete(f"{JOBS}/unheeded")

        printed = await topo(url(master), "doctor")
        assert "volcano-ignores-groups" in printed
        assert "volcano-evicts-nobody" in printed
        (line,) = commands(printed)
        *words, body = shlex.split(line)
        told = f"kubectl -n {NAMESPACE} patch configmap {CONFIG_MAP} --type=merge -p"
        assert words == told.split()
        path = f"{CONFIG_MAPS}/{CONFIG_MAP}"
        patched = await api.call("PATCH", path, json.loads(body), content_type=MERGE)
        configure(scheduler_file, patched["data"][CONFIG_KEY])
        await eventually(lambda: knows("heeded"))
        printed = await topo(url(master), "doctor")
        assert "volcano-ignores-groups" not in printed
        assert "volcano-evicts-nobody" not in printed
        (actions,) = re.findall(r'^actions: "(.*)"', scheduler_file.read_text(), re.MULTILINE)
        assert "preempt" in actions.split(", ")

        await api.create(JOBS, native_job("heeded", 7, gpu_group_within="switchbox"))
        assert api.warnings == []
        await eventually(lambda: all_bound("heeded", 7))
        await eventually(lambda: is_whole(master, "heeded"))
        assert are_whole(world, "dragonfly", await nodes_of(api, "heeded"), 2)
        assert are_whole(world, "switchbox", await nodes_of(api, "heeded"), 7)
        assert "GangGroupsIgnored" not in await events_of(api, "heeded")
        (group,) = [
            each
            for each in await api.items(POD_GROUPS)
            if each["metadata"]["name"].startswith("heeded-")
        ]
        assert [each["subGroupSize"] for each in group["spec"]["subGroupPolicy"]] == [2, 1]
        # No pair of nodes is whole any more.
        await api.create(JOBS, native_job("easy", 2, gpu_group_mode="preferred"))
        await eventually(lambda: all_bound("easy", 2))
        sys.stdout.write(master.program.log.read_text()[-4000:])
