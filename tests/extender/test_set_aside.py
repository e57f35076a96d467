"""An error of one gang is that gang's: its pods have no plan, and others get their groups."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from master.extender import plans
from master.object_errors import ObjectKind
from tests.extender.model import Scheduler, asked, split_groups
from tests.kube.fake_server import fake_server
from topo.gangs.extender import needs

pytestmark = pytest.mark.virtual_time


async def test_a_gang_that_raises_an_error_gets_no_plan_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again when one of its pods changes, and not before."""
    tries: list[str] = []
    original = needs.needs_of

    def needs_of(pods: Any, *rest: Any, **more: Any) -> Any:
        if len(pods) == 3:  # the gang of three pods
            tries.append("bad")
            raise RuntimeError("generator raised StopIteration")
        return original(pods, *rest, **more)

    monkeypatch.setattr(plans, "needs_of", needs_of)
    async with fake_server() as server:
        scheduler = Scheduler(server)
        await scheduler.nodes_come()
        async with asked(server, tmp_path) as asking:
            errors = asking.master.service.object_errors
            await scheduler.job_comes("bad", 3, 8, 16)
            await scheduler.job_comes("good", 2, 8, 16)
            await asyncio.sleep(2)
            found = await scheduler.schedule(asking, "bad-0")
            assert not found["NodeNames"]
            assert all("an error of topo-master" in why for why in found["FailedNodes"].values())
            for name in ("good-0", "good-1"):
                await scheduler.schedule(asking, name)
                assert scheduler.node_of(name)
            assert split_groups(scheduler, "good", 2, 2) == []
            assert len(errors.of(ObjectKind.EXTENDER_GANG)) == 1
            before = len(tries)
            await asyncio.sleep(30)
            assert len(tries) == before
            await scheduler.pod_goes("bad-2")
            await asyncio.sleep(2)
            await scheduler.schedule(asking, "bad-0")
            assert scheduler.node_of("bad-0")
            assert not errors.of(ObjectKind.EXTENDER_GANG)
