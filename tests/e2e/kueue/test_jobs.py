"""Jobs with groups in queues of real Kueue: by its own slices, and nominated after admission."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from tests.e2e.controlplane.client import Api
from tests.e2e.kueue.queues import (
    FLAVOR,
    PLAIN,
    conditions,
    is_published,
    open_queue,
    plain_flavor,
    queued,
)
from tests.e2e.scheduling.admission_master import AdmissionMaster
from tests.e2e.scheduling.asking import batch_job, nodes_of
from tests.e2e.scheduling.jobs import BATCH_JOBS, PODS, WORDS, taker
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

EXAMPLE = Path(__file__).parents[3] / "examples" / "jobs" / "kueue.yaml"
NATIVE = {WORDS.way: "native"}


def split(world: World, nodes: Sequence[str], pods: int) -> list[int]:
    """The groups of so many pods that lie in several dragonflies."""
    home = {str(host.name): (host.switchbox, host.dragonfly) for host in world.nodes}
    groups = [nodes[at : at + pods] for at in range(0, len(nodes), pods)]
    return [at for at, group in enumerate(groups) if len({home[node] for node in group}) > 1]


async def test_kueue_keeps_the_groups_of_a_native_job_whole_by_the_slices_it_is_given(
    api: Api, master: AdmissionMaster, world: World
) -> None:
    await eventually(lambda: is_published(api))
    await open_queue(api, "training", FLAVOR, 128)
    # A node of two dragonflies is taken: pairs that follow the names of nodes would be split.
    for host in (world.nodes[0], world.nodes[5]):
        await api.create(PODS, taker(f"taker-{host.name}", str(host.name)))
    job = queued(batch_job("native", 8, 16, gpus=8, **NATIVE), "training")
    await api.create(BATCH_JOBS, job)
    assert "spec.podReplacementPolicy is TerminatingOrFailed" in str(api.warnings)
    await eventually(lambda: _is_bound(api, "native", 8))
    assert split(world, await nodes_of(api, "native"), 2) == []
    assert (await conditions(api, "native"))["Admitted"] == "True"

    odd = await api.create(
        BATCH_JOBS, queued(batch_job("odd", 7, 16, gpus=8, **NATIVE), "training")
    )
    assert "7 is not a multiple of 2" in str(api.warnings)
    assert WORDS.ungrouped in odd["spec"]["template"]["metadata"]["annotations"]
    master.program.must_live()


async def test_kueue_gives_quota_first_and_the_nodes_are_whole_groups_of_ours(
    api: Api, master: AdmissionMaster, world: World
) -> None:
    await plain_flavor(api)
    await open_queue(api, "training", PLAIN, 32)
    master.program.must_live()
    for host in (world.nodes[0], world.nodes[5]):
        await api.create(PODS, taker(f"taker-{host.name}", str(host.name)))
    example = yaml.safe_load(EXAMPLE.read_text())
    await api.call("POST", BATCH_JOBS, example, fieldValidation="Strict")
    await eventually(lambda: _is_bound(api, "kueue", 4))
    assert split(world, await nodes_of(api, "kueue"), 2) == []

    await api.create(BATCH_JOBS, queued(batch_job("second", 4, 16), "training"))
    await eventually(lambda: _is_refused(api, "second"))
    assert await nodes_of(api, "second") == [], "no pod is made before there is quota"
    assert (await api.get(f"{BATCH_JOBS}/second"))["spec"]["suspend"]
    await api.delete(f"{BATCH_JOBS}/kueue")
    await eventually(lambda: _is_bound(api, "second", 4))
    assert split(world, await nodes_of(api, "second"), 2) == []


async def _is_bound(api: Api, job: str, pods: int) -> bool:
    nodes = await nodes_of(api, job)
    return len(nodes) == pods and all(nodes)


async def _is_refused(api: Api, job: str) -> bool:
    return (await conditions(api, job)).get("QuotaReserved") == "False"
