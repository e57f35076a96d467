"""Where a master of these tests keeps its state, and how often."""

from pathlib import Path

import pytest

FAST = "--state-save-interval=50ms"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "master.json"
