"""A world in which tokens are asked about."""

from collections.abc import AsyncIterator

import pytest

from tests.kube.service_accounts.reviews import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.reviews.close()
