"""For every test: no secret in what is printed, no verdict by speed, the same examples each time.

All secrets of this product enter through `topo.kit.secrets` and `WorkerTokens.parse`. Both are
listened to here, in every process of the test run, and after each test everything that it printed
or logged is searched for what was heard.
"""

import asyncio
import gc
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePath
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling, Scheduling

from tests.secrecy import HEARD, leaks, listen
from tests.support.processes import end_by_ctrl_c
from tests.support.virtual_time import VirtualTimeLoop

pytest_plugins = ["pytester"]
DEMOS = "tests/e2e"
"""The folder whose own files run demos on the usual ports, one at a time, as do those of the page:
all of them are one unit."""
_OF_DEMOS = (DEMOS, "tests/page")
WITHOUT_DEMOS = (
    *(f"tests/e2e/test_{name}.py" for name in ("ibsim", "lldp", "restart")),
    *(f"tests/page/test_{name}.py" for name in ("large", "modules")),
)
"""The files there that start none, so that they need not wait for the others."""
LONGEST = (
    "tests/chaos",
    *(
        f"tests/e2e/kubernetes/test_{name}.py"
        for name in ("lifecycle", "api_server_away", "takeover", "device_taints", "wrong_clock")
    ),
    *(
        f"tests/e2e/scheduling/test_{name}.py"
        for name in ("random_jobs", "refused_nodes", "installed", "two_masters")
    ),
    DEMOS,
    "tests/image",
    "tests/e2e/kubernetes",
    "tests/e2e/scheduling",
    "tests/bench",
    "tests/e2e/jobkinds",
    "tests/gangs/test_every_order.py",
)
"""Files and folders of minutes: begun last, one of them would be waited for by an idle core."""

UNTRACED = (
    "tests/admission/test_mutated_reviews.py",
    "tests/bench/test_placement_plans.py",
    "tests/cli/render/test_widths.py",
    *(f"tests/controllers/nomination/test_{name}.py" for name in ("killed", "leaving_gangs")),
    "tests/diagnosis/wiring/test_miswired.py",
    *(
        f"tests/discovery/test_{name}.py"
        for name in ("consistency", "machine", "properties", "several_sources", "vanished_facts")
    ),
    *(
        f"tests/discovery/groups/test_{name}.py"
        for name in ("fabric_worlds", "large_fabrics", "rails")
    ),
    "tests/discovery/suspicion/test_switches.py",
    "tests/extender/test_groups.py",
    *(
        f"tests/gangs/test_{name}.py"
        for name in (
            *("every_order", "head", "hostile_life", "late_pods", "random_life", "replay"),
        )
    ),
    "tests/kube/sources/test_cluster_capacity.py",
    "tests/master/api/holds/test_holds_storm.py",
    *(
        f"tests/parse/test_{name}.py"
        for name in ("any_text", "prefixes", "shared_probes", "variants")
    ),
    "tests/parse/nvidia/test_wild_nvlink_and_logs.py",
    "tests/placement/advice/test_advice.py",
    "tests/placement/capacity/test_with_changes.py",
    *(f"tests/placement/test_{name}.py" for name in ("churn", "clusters")),
    "tests/provisioning/test_random_life.py",
    "tests/publish/slurm/test_churn.py",
    "tests/mutated/test_mutated_objects.py",
    "tests/tenancy/test_hostile_tenant.py",
)
"""Files whose many examples run the lines of other tests again, as those of every property do:
tracing doubles their time, and the floors of coverage hold without it."""

_BY_SPEED = (HealthCheck.too_slow,)
"""The health checks that measure time. A property that names its own list names these, too."""

# `make fuzz` draws others, round after round.
settings.register_profile(
    "same",
    max_examples=50,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=_BY_SPEED,
)
settings.register_profile(
    "fresh", deadline=None, database=None, print_blob=True, suppress_health_check=_BY_SPEED
)
settings.load_profile("same")  # `make fuzz` asks for the other


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """A loop whose clock jumps for the tests that are marked so, else an ordinary one."""
    if item.get_closest_marker("virtual_time") is not None:
        return {"virtual": VirtualTimeLoop}
    return {"real": asyncio.new_event_loop}


def pytest_configure() -> None:
    """Begins to listen before any test runs, as in no pod and on no terminal.

    Nobody's cluster is asked, and what is printed has no width: readline writes one into the
    environment of parallel test processes.
    """
    listen()
    end_by_ctrl_c()
    for name in ("KUBERNETES_SERVICE_HOST", "COLUMNS", "LINES"):
        os.environ.pop(name, None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Looks for no garbage in what collecting makes: ten thousand tests, which stay.

    Each full collection would visit all of them, then and in the run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(25_000)
        gc.enable()


@cache
def _names_its_mark(file: Path) -> bool:
    return re.search(r"mark\.(slow|e2e)\b", file.read_text(encoding="utf-8")) is not None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuses a mark that its file does not show: the long suites collect the files that name one.

    Folders are marked later, by their conftest, and collected by name (`E2E` of the Makefile).
    """
    if any(map(item.get_closest_marker, ("slow", "e2e"))) and not _names_its_mark(item.path):
        raise pytest.UsageError(f"{item.nodeid} is slow or e2e: write `mark.…` into its file")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Stops the tracer itself while a test of `UNTRACED` or a property runs."""
    is_property = item.get_closest_marker("hypothesis") is not None
    is_untraced = is_property or item.nodeid.partition("::")[0] in UNTRACED
    tracer = sys.gettrace() if is_untraced else None
    if tracer is not None:
        sys.settrace(None)
    yield
    if tracer is not None:
        sys.settrace(tracer)


def _folder(unit: str) -> str:
    return unit if unit == DEMOS else str(PurePath(unit).parent)


def _place(unit: str) -> int:
    """How soon a file begins, among those that have a place; the others come after them."""
    listed = (unit in LONGEST and unit, _folder(unit) in LONGEST and _folder(unit))
    return min((LONGEST.index(each) for each in listed if each), default=len(LONGEST))


class LongestFirst(LoadFileScheduling):  # type: ignore[misc]  # xdist tells no types
    """A file at a time on each process, as `--dist loadfile`; the files with demos are one.

    A process goes on with the folder that it is in, whose control plane, images or browser it has
    started, and begins with one that no other is in, the longest first. Only when nothing else is
    left it starts all that once more, to help another one.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        is_of_demos = str(PurePath(file).parent) in _OF_DEMOS and file not in WITHOUT_DEMOS
        return DEMOS if is_of_demos else file

    def _assign_work_unit(self, node: Any) -> None:
        given = {each: list(units)[-1:] for each, units in self.assigned_work.items()}
        own = {_folder(unit) for unit in given.pop(node, [])}
        of_others = {_folder(unit) for units in given.values() for unit in units}

        def rank(unit: str) -> tuple[bool, bool, int]:
            folder = _folder(unit)
            return folder not in own, folder in of_others, _place(unit)

        self.workqueue.move_to_end(min(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    """In the place of `--dist loadfile`: no two processes have a demo at once."""
    return LongestFirst(config, log) if config.getoption("dist") == "loadfile" else None


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
