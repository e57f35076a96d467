"""A gang of kube-scheduler inside one leaf of a fabric that the tree of dragonflies is not of."""

from pathlib import Path
from typing import Any

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.gang_master import gang_master
from tests.e2e.scheduling.jobs import (
    BATCH_JOBS,
    WORDS,
    are_whole,
    bound,
    events_of,
    pods_of,
    template,
)
from tests.support.fabric import rails
from tests.support.waiting import eventually
from topo.gangs.stamp import Stamp
from topo.sim.worlds.presets import World


async def test_pairs_of_a_gang_are_whole_dragonflies_of_one_leaf(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    """A leaf has two dragonflies; those of one leaf are of two switchboxes."""
    names = [str(host.name) for host in world.nodes]
    units = [names[:2], names[2:6], names[6:10], names[10:14], names[14:]]
    built = rails(units, 1)
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps" / "subnet.txt").write_text(built.text())
    flags = (f"--fabric-dir={tmp_path / 'dumps'}", "--precedence=config,fabric")

    def job(name: str, pods: int) -> Any:
        made = asking.batch_job(name, pods)
        stamped = template(Stamp(pods, 0, 2), 16)
        stamped["metadata"]["annotations"][WORDS.within] = "leaf"
        made["spec"]["template"] = stamped
        return made

    async with gang_master(cluster, world, tmp_path, *flags):
        await api.create(BATCH_JOBS, job("inside", 4))
        await eventually(lambda: bound(api, "inside", 4))
        nodes = [each.node for each in await pods_of(api, "inside")]
        unit = next(number for number, unit in enumerate(units, 1) if set(nodes) <= set(unit))

        async def is_named() -> bool:
            where = f"all of them inside leaf ib-spine-01/ib-su{unit}-leaf-01 of scale-out"
            return where in str(await events_of(api, "inside"))

        await eventually(is_named)
        assert are_whole(world, "dragonfly", nodes, 2)
        await api.create(BATCH_JOBS, job("beyond", 6))

        async def is_told() -> bool:
            return "no leaf can take" in str(await events_of(api, "beyond"))

        await eventually(is_told)
