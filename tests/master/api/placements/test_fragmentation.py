"""`GET /v1/fragmentation`: what is whole, on a copy, once per version of the capacity."""

from pathlib import Path

import pytest

from master.booking.fragmentation_report import JOBS_NEEDED
from tests.master.documents import read
from tests.master.placing import NODES, placing
from topo.model.rest.fragmentation import FragmentationDocument

pytestmark = pytest.mark.virtual_time


async def test_the_report_follows_the_holds_and_never_touches_them(tmp_path: Path) -> None:
    async with placing(tmp_path, "--canonical-group-size=32") as caller:
        answer = await caller.master.get("/v1/fragmentation")
        read(FragmentationDocument, answer)
        (kind,) = answer.json["types"]
        assert (kind["free_gpus"], kind["whole_groups"], kind["integrity"]) == (128, 4, 1.0)
        assert answer.json["mix_observed"] is False
        await caller.held(NODES - 1)
        version = caller.master.service.placements.state.capacity.version
        (kind,) = (await caller.master.get("/v1/fragmentation")).json["types"]
        assert (kind["free_gpus"], kind["whole_groups"]) == (104, 3)
        assert 0 < kind["integrity"] < 1
        assert caller.master.service.placements.state.capacity.version == version


async def test_the_report_is_made_once_per_version(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        placements = caller.master.service.placements
        first = await placements.maintenance.report()
        assert await placements.maintenance.report() is first
        await caller.held()
        assert await placements.maintenance.report() is not first


async def test_the_jobs_that_were_held_make_the_mix(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        for _ in range(JOBS_NEEDED):
            name = (await caller.held(2))["hold"]["id"]
            await caller.delete(f"/v1/holds/{name}")
        report = (await caller.master.get("/v1/fragmentation")).json
        assert report["mix_observed"] is True
        (share,) = report["mix"]
        assert (share["pods"], share["gpus_per_pod"]) == (2, 8)


async def test_the_gauges_are_those_of_the_report(tmp_path: Path) -> None:
    async with placing(tmp_path, "--canonical-group-size=32") as caller:
        await caller.master.get("/v1/fragmentation")
        text = (await caller.master.get("/metrics")).body.decode()
        assert 'topo_master_free_gpus{gpu_type="unknown"} 128.0' in text
        assert 'topo_master_free_groups{kind="dragonfly"} 4.0' in text
        assert 'topo_master_pristine_groups{kind="switchbox"} 2.0' in text
