"""A gang whose pods mount a volume goes where that is, and waits, told, for one that is missing."""

from typing import Any

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.scheduling import asking, volumes
from tests.e2e.scheduling.gang_master import GangMaster
from tests.e2e.scheduling.jobs import (
    BATCH_JOBS,
    JOBS,
    NODES,
    are_whole,
    bound,
    homes,
    pods_of,
    template,
    volcano_job,
)
from tests.support.waiting import eventually
from topo.gangs.stamp import Stamp
from topo.sim.worlds.presets import World


def mount(claim: str) -> list[dict[str, Any]]:
    """The volumes of a pod with this claim; schedulers keep claims of old by name, so each job has
    a name of its own.
    """
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]


def batch() -> Any:
    job = asking.batch_job("mounting", 2)
    job["spec"]["template"] = template(Stamp(2, 0, 2), 16)
    job["spec"]["template"]["spec"]["volumes"] = mount("of-batch")
    return job


def volcano() -> Any:
    job = volcano_job("mounting", 2, 16)
    for task in job["spec"]["tasks"]:
        task["template"]["spec"]["volumes"] = mount("of-volcano")
    return job


@pytest.mark.parametrize(
    ("at", "job", "claim"),
    [(BATCH_JOBS, batch(), "of-batch"), (JOBS, volcano(), "of-volcano")],
    ids=["batch", "volcano"],
)
async def test_a_gang_is_told_the_claim_that_is_missing_and_goes_where_its_volume_is(
    api: Api, master: GangMaster, world: World, at: str, job: Any, claim: str
) -> None:
    """Only the last switchbox reaches the volume; every node has room."""
    shelves = homes(world, "switchbox")
    last = max(shelves.values())
    for node, shelf in shelves.items():
        await api.merge(f"{NODES}/{node}", {"metadata": {"labels": {volumes.SHELF: shelf}}})
    await api.create(at, job)

    async def is_told() -> bool:
        text = (await master.gang("mounting")).get("text", "")
        return f"PersistentVolumeClaim {claim} of mounting" in text and "is not there" in text

    await eventually(is_told)
    try:
        await volumes.make(api, claim, last)
        await eventually(lambda: bound(api, "mounting", 2))
        nodes = [each.node for each in await pods_of(api, "mounting")]
        assert {shelves[node] for node in nodes} == {last}
        assert are_whole(world, "dragonfly", nodes, 2)
    finally:
        await api.delete(f"{at}/mounting")
        await volumes.remove(api, claim)
