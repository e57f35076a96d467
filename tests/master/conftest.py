"""Files that a master wants."""

from pathlib import Path

import pytest

from tests.master.world import TOKEN


@pytest.fixture
def token_flag(tmp_path: Path) -> str:
    """The flag that lets workers with the shared token in."""
    path = tmp_path / "worker-token"
    path.write_text(TOKEN + "\n")
    return f"--worker-token-file={path}"
