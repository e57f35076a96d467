"""A round of `make chaos-elected`: what leaders that come and go wrote is one true history."""

from pathlib import Path

from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.elected.run import elected
from topo.sim.worlds.presets import World

SEED, ROUNDS = 8, 1
"""The leader is killed."""
LONG_MINUTES = 60.0


async def test_no_gpu_has_two_owners_no_gang_is_opened_in_part_and_no_promised_hold_is_lost(
    cluster: Cluster, world: World, tmp_path: Path
) -> None:
    notes = await elected(cluster, world, tmp_path, SEED, ROUNDS, LONG_MINUTES)
    assert not notes.violations, (tmp_path / "elected.log").read_text()[-10_000:]
    assert notes.acts == {"kill": 1}
    assert notes.answers["versions of pods"] > 20
    assert notes.answers["holds given"] > 0
