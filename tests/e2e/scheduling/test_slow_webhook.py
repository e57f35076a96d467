"""A webhook that takes reviews and does not answer them: jobs run, and what passed by is told.

The API server waits for its own timeout, and then goes by the `failurePolicy`: Ignore, but for pods
of jobs with groups, which wait where the chart's value is not another one. The master behind is
well all the time: it is the way to its port that stands still.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession

from tests.e2e.controlplane.admission import CONFIGURATIONS, NAME
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.processes import Program
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.admission_master import AdmissionMaster, admission_master
from tests.e2e.scheduling.gang_master import api_url, document
from tests.e2e.scheduling.jobs import (
    BATCH_JOBS,
    JOBS,
    PODS,
    Seen,
    are_as_planned,
    are_whole,
    bound,
    events_of,
    pods_of,
)
from tests.e2e.scheduling.webhook_door import WebhookDoor
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

TIMEOUT_S = 1
"""The least that an API server takes."""
DOOR = 202
FIX = "delete the job and create it again"


@dataclass(frozen=True)
class Behind:
    """A master, and the door before its webhook."""

    master: AdmissionMaster
    door: WebhookDoor

    async def answered(self, path: str) -> str:
        """What its API answers."""
        url = api_url(self.master.program)
        async with ClientSession() as session, session.get(f"{url}{path}") as answer:
            return await answer.text()

    async def slipped(self) -> float:
        """How many pods it counted that were made without a gate."""
        text = await self.answered("/metrics")
        (value,) = re.findall(r"^topo_master_gang_pods_slipped_total (\S+)$", text, re.MULTILINE)
        return float(value)


@pytest.fixture
async def behind(cluster: Cluster, api: Api, world: World, tmp_path: Path) -> AsyncIterator[Behind]:
    """A master that knows the world, whose webhook API servers wait a second for."""
    (tmp_path / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
    async with (
        admission_master(cluster, api, tmp_path, reached_at=DOOR) as master,
        WebhookDoor(f"{cluster.ports.services}.{DOOR}", master.address) as door,
    ):
        await _shorten(api)
        yield Behind(master, door)


async def _shorten(api: Api) -> None:
    """API servers wait no longer than they must."""
    path = f"{CONFIGURATIONS}/{NAME}"
    webhooks = (await api.get(path))["webhooks"]
    for each in webhooks:
        each["timeoutSeconds"] = TIMEOUT_S
    await api.merge(path, {"webhooks": webhooks})


async def _let_pods_pass(api: Api) -> None:
    """As with `placement.podFailurePolicy: Ignore`."""
    path = f"{CONFIGURATIONS}/{NAME}"
    webhooks = (await api.get(path))["webhooks"]
    for each in webhooks:
        each["failurePolicy"] = "Ignore"
    await api.merge(path, {"webhooks": webhooks})


@asynccontextmanager
async def _no_pods_meanwhile(controllers: Program) -> AsyncIterator[None]:
    """Inside the block jobs are made, and none of their pods, which these controllers make."""
    await asyncio.to_thread(controllers.stop, 0.0)
    try:
        yield
    finally:
        controllers.start()


async def _made_as_stamped(api: Api, collection: str, job: Any) -> None:
    """Makes the job; its webhook has answered."""
    made = await api.create(collection, job)
    assert "metax-tech.com/gang-pods" in str(made["spec"])


async def _is_told(api: Api, job: str) -> bool:
    return FIX in (await events_of(api, job)).get("GangPassedBy", "")


async def _is_warned(behind: Behind) -> bool:
    """Whether the document, which is up to a second old, has the warning."""
    return '"gang-passed-by"' in await behind.answered("/v1/topology")


async def _counts(behind: Behind, pods: int) -> bool:
    return await behind.slipped() == pods


async def _in_pairs(api: Api, world: World, job: str) -> list[Seen]:
    """The four pods of the job, each where it was planned or not planned, once they run whole."""
    await eventually(lambda: bound(api, job, 4))
    found = await pods_of(api, job)
    assert are_whole(world, "dragonfly", [each.node for each in found], 2)
    return found


async def test_a_job_that_the_webhook_hung_for_runs_is_counted_and_told_and_the_next_has_groups(
    api: Api, behind: Behind, world: World
) -> None:
    behind.door.hang()
    await api.create(JOBS, asking.volcano_job("unheard", 4, 16))  # its master names the size
    await eventually(lambda: bound(api, "unheard", 4))
    assert behind.door.hung >= 1
    assert not any(each.planned for each in await pods_of(api, "unheard"))
    await eventually(lambda: _is_told(api, "unheard"))
    await eventually(lambda: _counts(behind, 1))
    await eventually(lambda: _is_warned(behind))

    behind.door.heal()
    await api.delete(f"{JOBS}/unheard")
    await api.create(JOBS, asking.volcano_job("heard", 4, 16))
    found = await _in_pairs(api, world, "heard")
    assert all(each.planned == each.node for each in found)
    await eventually(lambda: _counts(behind, 1))
    behind.master.program.must_live()


async def test_a_job_that_was_stamped_and_whose_pods_all_slipped_through_runs_counted_and_told(
    cluster: Cluster, api: Api, behind: Behind
) -> None:
    await _let_pods_pass(api)
    async with _no_pods_meanwhile(cluster.volcano[0]):
        await _made_as_stamped(api, JOBS, asking.volcano_job("ungated", 4, 16))
        behind.door.hang()
    await eventually(lambda: bound(api, "ungated", 4))
    assert behind.door.hung >= 4
    await eventually(lambda: _is_told(api, "ungated"))
    await eventually(lambda: _counts(behind, 4))
    assert not any(each.planned or each.gated for each in await pods_of(api, "ungated"))


async def test_a_pod_that_slipped_through_beside_gated_ones_is_counted_told_and_planned_with_them(
    cluster: Cluster, api: Api, behind: Behind, world: World
) -> None:
    await _let_pods_pass(api)
    async with _no_pods_meanwhile(cluster.volcano[0]):
        await _made_as_stamped(api, JOBS, asking.volcano_job("holed", 4, 16))
        behind.door.hang(1)
    await eventually(partial(_is_told, api, "holed"))
    found = await _in_pairs(api, world, "holed")
    assert behind.door.hung == 1
    assert all(each.planned == each.node for each in found)
    assert len({each.node for each in found}) == 4
    await eventually(lambda: _counts(behind, 1))
    assert len(await api.items(PODS)) == 4


@pytest.mark.parametrize("kind", ["volcano", "kube"])
async def test_pods_of_a_stamped_job_wait_for_the_webhook_and_no_group_is_split(
    cluster: Cluster, api: Api, behind: Behind, world: World, kind: str
) -> None:
    """Their scheduler would bind a pod without a gate anywhere; controllers create it again."""
    of_volcano = kind == "volcano"
    controllers = cluster.volcano[0] if of_volcano else cluster.controllers
    collection, made = (JOBS, asking.volcano_job) if of_volcano else (BATCH_JOBS, asking.batch_job)
    async with _no_pods_meanwhile(controllers):
        await _made_as_stamped(api, collection, made("patient", 4, 16))
        behind.door.hang()
    await eventually(lambda: _is_held(behind))
    assert await pods_of(api, "patient") == []
    behind.door.heal()
    found = await _in_pairs(api, world, "patient")
    assert are_as_planned(found, 2)
    assert await behind.slipped() == 0


async def _is_held(behind: Behind) -> bool:
    return behind.door.hung >= 4
