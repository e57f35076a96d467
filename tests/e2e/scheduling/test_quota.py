"""A ResourceQuota that keeps pods of a job away is named, and nothing starts in part.

Volcano creates the pods of a job at once, so that either of two may come first.
"""

from tests.e2e.controlplane.client import Api
from tests.e2e.scheduling.gang_master import GangMaster
from tests.e2e.scheduling.jobs import JOBS, bound, pods_of, volcano_job
from tests.support.waiting import eventually

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
GPUS = "requests.metax-tech.com/gpu"
NAMED = f"ResourceQuota default/gpus has no room for another pod: {GPUS} 8 of 8"


async def test_the_quota_that_keeps_a_pod_away_is_named_and_the_job_starts_once_it_is_raised(
    api: Api, master: GangMaster
) -> None:
    async def is_told() -> bool:
        text = (await master.gang("rationed")).get("text", "")
        return text in {
            f"1 of 2 pods are there; rank {rank} is missing; {NAMED}" for rank in (0, 1)
        }

    quota = {"metadata": {"name": "gpus"}, "spec": {"hard": {GPUS: "8"}}}
    await api.create(QUOTAS, quota)
    try:
        await eventually(lambda: _is_counted(api))
        await api.create(JOBS, volcano_job("rationed", 2, 16))
        await eventually(is_told)
        assert all(each.gated for each in await pods_of(api, "rationed"))
        await api.merge(f"{QUOTAS}/gpus", {"spec": {"hard": {GPUS: "16"}}})
        await eventually(lambda: bound(api, "rationed", 2))
    finally:
        await api.delete(f"{QUOTAS}/gpus")


async def _is_counted(api: Api) -> bool:
    return bool((await api.get(f"{QUOTAS}/gpus")).get("status", {}).get("hard"))
