"""A planned node that lacks something besides GPUs: the scheduler refuses it, the gang moves."""

from typing import Any

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.scheduling.jobs import (
    BATCH_JOBS,
    JOBS,
    PODS,
    are_whole,
    bound,
    pods_of,
    taker,
    template,
    volcano_job,
)
from tests.support.waiting import eventually
from topo.gangs.stamp import Stamp
from topo.sim.worlds.presets import World

PORT = {"containerPort": 7777, "hostPort": 7777}
pytestmark = pytest.mark.usefixtures("master")


async def test_gangs_that_both_schedulers_refuse_for_a_host_port_are_placed_elsewhere(
    api: Api, world: World
) -> None:
    """Pods of somebody else have the port on the nodes of the first two dragonflies."""
    nodes = [str(host.name) for host in world.nodes]
    for node in nodes[:4]:
        await api.create(PODS, _with_port(taker(f"port-{node}", node, gpus=0)))
    for node in nodes[8:]:
        await api.create(PODS, taker(f"taker-{node}", node))
    await api.create(JOBS, _ported(volcano_job("on-volcano", 2, 16)))
    await api.create(BATCH_JOBS, _ported(_batch_job("on-kube")))
    await eventually(lambda: bound(api, "on-volcano", 2))
    await eventually(lambda: bound(api, "on-kube", 2))
    for job in ("on-volcano", "on-kube"):
        found = [each.node for each in await pods_of(api, job)]
        assert are_whole(world, "dragonfly", found, 2)
        assert {*found} <= {*nodes[4:8]}


def _batch_job(name: str) -> Any:
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed"}
    made = template(Stamp(2, 0, 2), 16)
    return {"metadata": {"name": name}, "spec": {**spec, "template": made}}


def _ported(job: Any) -> Any:
    """Let every pod of a job ask for the port on its node."""
    spec = job["spec"]
    templates = [task["template"] for task in spec["tasks"]] if "tasks" in spec else []
    for each in templates or [spec["template"]]:
        _with_port(each)
    return job


def _with_port(pod: Any) -> Any:
    pod["spec"]["containers"][0]["ports"] = [PORT]
    return pod
