"""Ranks of a job that have ended while others run, under the leader that saw it and the next."""

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.kwok import COMPLETE
from tests.e2e.scheduling.gang_master import GangMaster
from tests.e2e.scheduling.jobs import JOBS, PODS, bound, pods_of, volcano_job
from tests.support.waiting import eventually

JOB, PODS_OF_GANG = "ending", 4


async def test_ranks_that_have_ended_are_not_missing_for_this_leader_nor_for_the_next(
    api: Api, master: GangMaster
) -> None:
    async def half_has_ended() -> bool:
        found = await master.gang(JOB)
        if found.get("bound") != PODS_OF_GANG // 2:
            return False
        assert found["state"] == "bound", found["text"]
        return True

    job = volcano_job(JOB, PODS_OF_GANG, 16)
    for task in job["spec"]["tasks"]:
        task["template"].setdefault("metadata", {}).setdefault("labels", {})
        task["template"]["metadata"]["labels"]["metax-tech.com/gpu-group"] = "0"
    await api.create(JOBS, job)
    await eventually(lambda: bound(api, JOB, PODS_OF_GANG))
    for pod in (await pods_of(api, JOB))[: PODS_OF_GANG // 2]:
        done = {"metadata": {"annotations": {COMPLETE: "true"}}}
        await api.merge(f"{PODS}/{pod.name}", done)
    await eventually(half_has_ended)
    await master.kill()
    master.start()
    await eventually(half_has_ended)
    master.program.must_live()
