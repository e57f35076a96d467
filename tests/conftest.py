"""For every test: whatever is logged or printed, no secret is in it.

All secrets of this product enter through `topo.kit.secrets` and `WorkerTokens.parse`. Both are
listened to here, in every process of the test run, and after each test everything that it printed
or logged is searched for what was heard.
"""

from collections.abc import Generator

import pytest

from tests.secrecy import HEARD, leaks, listen

pytest_plugins = ["pytester"]


def pytest_configure() -> None:
    """Begins to listen before any test runs."""
    listen()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fails the test whose output shows a secret."""
    report = yield
    if call.when == "teardown" and report.passed:
        said = "\n".join(text for _, text in report.sections)
        found = leaks(said, HEARD)
        if found:
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} logged {len(found)} secrets: {found}"
    return report
