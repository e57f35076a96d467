"""The same job without us and with us, in a cluster of which one switchbox is half in use."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.volcano import TOPOLOGY_AWARE
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.admission_master import admission_master
from tests.e2e.scheduling.gang_master import document
from tests.e2e.scheduling.jobs import BATCH_JOBS, JOBS, PODS, taker
from tests.e2e.scheduling.tour import ended, half_of_first, on_page, ran, split, toured
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

README = Path(__file__).parents[3] / "README.md"
HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"


def without_what_moves(told: str) -> str:
    """The tour without the places that a scheduler draws by lot, and without ages."""
    alone, rest = told.split("The same job")
    alone = re.sub(r"^( *ranks \d \d).*$", r"\1 …", alone, flags=re.MULTILINE)
    alone = re.sub(r"\d (of 4 pairs)", r"… \1", alone)
    return " ".join((alone + re.sub(r"[\d.]+ s\b", "… s", rest)).split())


async def test_the_tour_shows_a_job_split_alone_and_whole_with_us_as_the_readme_has_it(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    told: list[str] = []
    alone, together = await toured(cluster, api, world, tmp_path, told.append)
    assert split(world, alone) > 0
    assert split(world, together) == 0
    assert len(set(together)) == 8
    shown = on_page(README.read_text())
    assert without_what_moves(shown) == without_what_moves("\n".join(told))


async def compared(
    api: Api, world: World, collection: str, job: Callable[..., Any]
) -> tuple[int, int]:
    """How many pairs of ranks of the same job are split without us, and with us."""
    for node in half_of_first(world):
        await api.create(PODS, taker(f"taker-{node}", node))
    alone = split(world, await ran(api, collection, job("alone", 8)))
    await ended(api, collection, "alone")
    return alone, split(world, await ran(api, collection, job("together", 8, 16)))


async def test_an_indexed_job_that_kube_scheduler_splits_alone_is_whole_with_us(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    (tmp_path / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
    async with admission_master(cluster, api, tmp_path):
        alone, together = await compared(api, world, BATCH_JOBS, asking.batch_job)
    assert alone > 0
    assert together == 0


@pytest.fixture
def topology_aware(cluster: Cluster) -> Iterator[None]:
    """Volcano's scheduler has its plugin for HyperNodes."""
    scheduler = cluster.volcano[1]
    (flag,) = (each for each in scheduler.argv if each.startswith("--scheduler-conf="))
    path = Path(flag.partition("=")[2])

    def configure(text: str) -> None:
        scheduler.stop()
        path.write_text(text)
        scheduler.start()

    before = path.read_text()
    configure(TOPOLOGY_AWARE)
    yield
    configure(before)


@pytest.mark.usefixtures("topology_aware")
async def test_a_job_is_whole_with_us_too_where_volcano_knows_the_hypernodes(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    (tmp_path / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))

    async def are_there() -> bool:
        return len(await api.items(HYPERNODES)) == 10

    flag = "--controllers=nomination,hypernodes"
    async with admission_master(cluster, api, tmp_path, flag):
        await eventually(are_there)
        alone, together = await compared(api, world, JOBS, asking.volcano_job)
    assert alone > 0
    assert together == 0
