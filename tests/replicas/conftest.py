"""Masters that stand for election, in this process."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.replicas.installation import Installation, installation


@pytest.fixture
async def installed(tmp_path: Path) -> AsyncIterator[Installation]:
    async with installation(tmp_path) as made:
        yield made
