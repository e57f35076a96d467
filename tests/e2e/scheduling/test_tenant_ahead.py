"""A tenant whose few pods state gangs of the whole cluster, on the real API server.

Its pods are made by its own account, which may make pods and jobs in one namespace alone.
"""

from functools import partial
from pathlib import Path

from aiohttp import ClientSession

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.elected_masters import ElectedMasters
from tests.e2e.scheduling.gang_master import gang_master
from tests.e2e.scheduling.jobs import BATCH_JOBS, WORDS, are_whole, bound, pods_of
from tests.e2e.scheduling.tenant import a_tenant, claim, stamped
from tests.e2e.scheduling.test_extender import asking_scheduler, extender_url
from tests.e2e.scheduling.test_extender import job as asking_job
from tests.e2e.scheduling.test_tenant import gangs, masters_and_tenant, must_live, submit
from tests.support.waiting import eventually
from topo.model.rest.topology import is_group, walk
from topo.sim.worlds.presets import World

GPUS, GPUS_OF_POD = 16 * 8, 8
AHEAD_SHARE = 0.25
"""The default of `--ahead-share`: 32 of the 128 GPUs. Other tests have none, so it is stated."""
OF_A_QUARTER = f"--ahead-share={AHEAD_SHARE}"
LATE = {"late-eight": 8, "late-four": 4, "late-four-more": 4}
"""Late gangs of one pod each and of so many by its words: together all 16 nodes."""
VICTIMS = tuple(f"victim-{number}" for number in range(5))
"""Jobs of two pods: with them 14 nodes are taken, if the tenant keeps 4."""


async def test_pods_that_state_the_whole_cluster_keep_no_more_ahead_than_the_budget(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    """All gangs of the namespace share it, and jobs of others are bound beside what it keeps."""
    async with masters_and_tenant(cluster, api, world, tmp_path, OF_A_QUARTER) as (masters, tenant):

        async def has_stood(name: str) -> bool:
            must_live(masters)
            found = (await gangs(masters, tenant.namespace)).get(name, {})
            return found.get("state") in {"queue", "no-room", "placed", "opened", "pods-missing"}

        for name, pods in LATE.items():
            owner = await tenant.job_nobody_runs(name)
            stamps = {**stamped(16, pods, 2), WORDS.is_late: "true"}
            await tenant.pod(claim(owner, 0, stamps, nodeSelector={}, schedulerName="nobody"))
            await eventually(partial(has_stood, name))
        assert await held(masters) <= GPUS * AHEAD_SHARE + GPUS_OF_POD
        for victim in VICTIMS:
            await submit(api, BATCH_JOBS, asking.batch_job(victim, 2, 16))
        await must_be_bound(api, world)
        must_live(masters)


async def test_a_pod_whose_scheduler_never_asks_keeps_the_node_of_its_group_alone_in_the_extender(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    """Its gang is the whole cluster by its words; jobs of the asking scheduler are bound."""
    flags = ("--extender=on", "--extender-port=0", "--controllers=none", OF_A_QUARTER)
    async with (
        gang_master(cluster, world, tmp_path, *flags) as running,
        a_tenant(cluster, api) as tenant,
    ):
        await eventually(lambda: bool(extender_url(running)))
        owner = await tenant.job_nobody_runs("never")
        stamps = stamped(16, GPUS // GPUS_OF_POD, 2)
        await tenant.pod(claim(owner, 0, stamps, nodeSelector={}, schedulerName="nobody"))
        with asking_scheduler(cluster, tmp_path, extender_url(running)):
            for victim in VICTIMS:
                await api.create(BATCH_JOBS, asking_job(victim, 2, 16))
            await must_be_bound(api, world)
        running.program.must_live()


async def must_be_bound(api: Api, world: World) -> None:
    """Return once each victim is bound inside one dragonfly."""
    for victim in VICTIMS:
        await eventually(partial(bound, api, victim, 2))
        nodes = [each.node for each in await pods_of(api, victim)]
        assert are_whole(world, "dragonfly", nodes, 2), victim


async def held(masters: ElectedMasters) -> int:
    """The GPUs that the leader keeps for pods that are not bound."""
    url = await masters.url()
    async with ClientSession() as session, session.get(f"{url}/v1/topology") as answer:
        groups = (await answer.json())["groups"]
    return sum(node["held_gpus"] for _, node in walk(groups) if not is_group(node))
