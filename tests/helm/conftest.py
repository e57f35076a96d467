"""The helm of these tests."""

from pathlib import Path

import pytest

from tests.e2e.controlplane.programs import why_not
from tests.helm.chart import built_helm, built_helm3


@pytest.fixture(scope="session")
def helm() -> Path:
    """The real helm; the test is skipped where no Go builds it."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    return built_helm()


@pytest.fixture(scope="session")
def helm3() -> Path:
    """The major version before it."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    return built_helm3()
