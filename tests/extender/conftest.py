"""An API server, and a kube-scheduler on it that asks the extender."""

from collections.abc import AsyncIterator

import pytest

from tests.extender.model import Scheduler
from tests.kube.fake_server import FakeServer, fake_server


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with fake_server() as running:
        yield running


@pytest.fixture
async def scheduler(server: FakeServer) -> Scheduler:
    found = Scheduler(server)
    await found.nodes_come()
    return found
