"""The API server is away: every master goes on answering, and all is right afterwards.

A leader ends when it cannot renew its lease. What it shows when its container is started again is
the copy in its volume.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from aiohttp import ClientError, ClientTimeout

from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.controlplane.pod import PodProcess
from tests.e2e.controlplane.release import ALONE, Release
from tests.e2e.kubernetes.agreement import DOMAIN, doubts, statuses
from tests.support.waiting import CEILING_S, eventually, eventually_nothing

AWAY_S = 30.0
"""Longer than a leader's term, and long enough for its copy to be shown. In the outages of
`test_outages.py` every leader goes on."""
LOOK_S = 0.2
LABEL = f"{DOMAIN}/dragonfly"
ORIGIN = "Topo-Origin"
SAVED = "topo_master_state_saved_timestamp_seconds"


@dataclass
class Watched:
    """A master that is asked all the time: how often and how long it gave no answer, and the rest.

    `other` has the answers that were not those of before.
    """

    pod: PodProcess
    gaps_s: list[float] = field(default_factory=list)
    other: list[Any] = field(default_factory=list)
    origins: set[str] = field(default_factory=set)

    async def ask(self, release: Release, before: Any, over: asyncio.Event) -> None:
        """Asks until it is over, and until the gap that it is in has ended."""
        silent_since_s = None
        while not over.is_set() or silent_since_s is not None:
            now_s = time.monotonic()
            found = await self._answer(release)
            if found is None:
                silent_since_s = silent_since_s or now_s
            else:
                if silent_since_s is not None:
                    self.gaps_s.append(time.monotonic() - silent_since_s)
                    silent_since_s = None
                status, document, origin = found
                self.origins.add(origin)
                if (status, document) != (200, before):
                    self.other.append((status, document))
            await asyncio.sleep(LOOK_S)

    async def _answer(self, release: Release) -> tuple[int, Any, str] | None:
        url = f"http://{self.pod.listens_at}:9001/node_group"
        try:
            async with release.session.get(url, timeout=ClientTimeout(total=CEILING_S)) as answer:
                return answer.status, await answer.json(), answer.headers.get(ORIGIN, "")
        except (ClientError, OSError):
            return None


@pytest.mark.parametrize(
    "masters",
    [
        pytest.param((), id="two-masters"),
        pytest.param(ALONE, id="one-master", marks=pytest.mark.deep),
    ],
)
async def test_masters_answer_all_the_time_and_act_rightly_when_it_is_back(
    release: Release, control_plane: Cluster, masters: Sequence[str]
) -> None:
    await release.install(*masters)
    await eventually_nothing(lambda: doubts(release))
    before = await release.node_group()
    await eventually(partial(_is_saved, release, time.time()))
    path = f"{NODES}/node-sample5"
    right = (await release.api.get(path))["metadata"]["labels"][LABEL]
    watched = [Watched(pod) for pod in release.kubelet.pods("topo-master")]
    await control_plane.stop_api_server()
    back_s = time.monotonic() + AWAY_S
    over = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            for each in watched:
                group.create_task(each.ask(release, before, over))
            await eventually(lambda: any("state-copy" in each.origins for each in watched))
            await asyncio.sleep(back_s - time.monotonic())
            over.set()
    finally:
        await control_plane.start_api_server()
    for each in watched:
        print(f"{each.pod.path}: no answer for {[f'{gap:.2f}' for gap in each.gaps_s]} s")
        assert not each.other
        assert len(each.gaps_s) <= each.pod.restarts
        assert ("state-copy" in each.origins) == (each.pod.restarts > 0)
    assert sum(each.pod.restarts for each in watched) == 1, "who led has ended, once"
    ends = release.hosts.cut("node-sample3")
    await eventually(lambda: _has_status(release, "NotReady", *ends))
    await release.api.merge(path, {"metadata": {"labels": {LABEL: None}}})
    await eventually(lambda: _is_labelled(release, path, right))
    release.hosts.heal()
    await eventually_nothing(lambda: doubts(release))
    assert await release.node_group() == before


async def _is_saved(release: Release, since_s: float) -> bool:
    """Whether the leader has saved its state since then, so that its copy shows what was then."""
    for pod in release.kubelet.pods("topo-master"):
        async with release.session.get(f"http://{pod.listens_at}:9001/metrics") as answer:
            found = re.search(rf"^{SAVED} (\S+)$", await answer.text(), re.MULTILINE)
        if found is not None and float(found[1]) >= since_s:
            return True
    return False


async def _has_status(release: Release, status: str, *nodes: str) -> bool:
    found = dict(statuses(await release.node_group() or ()))
    return all(found.get(node) == status for node in nodes)


async def _is_labelled(release: Release, path: str, value: str) -> bool:
    labels = (await release.api.get(path))["metadata"]["labels"]
    return bool(labels.get(LABEL) == value)
