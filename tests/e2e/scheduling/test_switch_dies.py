"""A switchbox dies under running jobs, and comes back: the short form of `make e2e-switch`."""

from pathlib import Path

from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.scheduling.switch_dies import bed_of, dies, switchbox
from topo.sim.worlds.presets import World


async def test_a_switchbox_that_dies_is_one_finding_with_its_jobs_and_new_ones_avoid_it(
    cluster: Cluster, world: World, tmp_path: Path
) -> None:
    """Tree, metrics, doctor and page say so; pods and HyperNodes stay; then all is well again."""
    async with bed_of(cluster, tmp_path, world, "--cluster-manager-poll-event-period=0.5") as bed:
        await bed.create(*(f"job-{number}" for number in range(6)))
        await dies(bed, switchbox(world), print, freed=1)
    assert bed.faults == []
