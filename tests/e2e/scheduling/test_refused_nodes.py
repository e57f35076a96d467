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

GUARD = {"guard": "here"}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": GUARD}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
"""Which nobody judges but the scheduler."""
pytestmark = pytest.mark.usefixtures("master")


async def test_gangs_that_both_schedulers_refuse_for_affinity_are_placed_elsewhere(
    api: Api, world: World
) -> None:
    """Pods that they must not meet are on the nodes of the first two dragonflies."""
    nodes = [str(host.name) for host in world.nodes]
    for node in nodes[:4]:
        guard = taker(f"guard-{node}", node, gpus=0)
        guard["metadata"]["labels"] = GUARD
        await api.create(PODS, guard)
    for node in nodes[8:]:
        await api.create(PODS, taker(f"taker-{node}", node))
    await api.create(JOBS, _apart(volcano_job("on-volcano", 2, 16)))
    await api.create(BATCH_JOBS, _apart(_batch_job("on-kube")))
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


def _apart(job: Any) -> Any:
    """Keep every pod of a job from nodes with a guard."""
    spec = job["spec"]
    templates = [task["template"] for task in spec["tasks"]] if "tasks" in spec else []
    for each in templates or [spec["template"]]:
        each["spec"]["affinity"] = APART
    return job
