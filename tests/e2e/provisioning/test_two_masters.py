"""One kill of `make e2e-provisioning`: what was booked and not yet told is told by the next."""

from pathlib import Path

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.provisioning.lives import lives
from topo.sim.worlds.presets import World


async def test_a_request_keeps_its_booking_where_the_leader_dies_before_it_says_so(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    async with lives(cluster, api, world, tmp_path) as found:
        await found.live("Provisioned", arrives=False)
    assert found.violations == []
    assert found.masters.leaders_killed == 1
    assert found.looks > 0
