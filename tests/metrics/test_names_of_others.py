"""Names that other people give are labels as they stand: no metric is lost, none is made up."""

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.master.world import Master, running

pytestmark = pytest.mark.virtual_time
PROMTOOL = shutil.which("promtool")
EVIL = (
    "<img src=x onerror=alert(1)>",
    'a"b\\c',
    '"} 9\\ntopo_master_ready 9',
    "{{ $value }} $labels %s",
    "\u05e9\u05dc\u05d5\u05dd.exe",  # right to left
    "n" * 253,
)
KIND = "box-of-many"


@pytest.fixture
async def master(tmp_path: Path) -> AsyncIterator[Master]:
    """A master whose file has groups of these names, with a series for each."""
    groups = [{"name": name, "kind": KIND, "child": [f"node-{n}"]} for n, name in enumerate(EVIL)]
    path = tmp_path / "nodegroup.yaml"
    path.write_bytes(orjson.dumps({"group": groups}))
    async with running(f"--config-file={path}", "--group-metrics") as begun:
        await begun.ready()
        yield begun


async def test_every_name_is_one_label_and_comes_back_as_it_was(master: Master) -> None:
    text = (await master.get("/metrics")).body.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    ready = families["topo_master_group_ready"].samples
    assert {sample.labels["group"] for sample in ready} == set(EVIL)
    (shown,) = families["topo_master_ready"].samples
    assert shown.value == 1


@pytest.mark.skipif(PROMTOOL is None, reason="promtool (Debian's prometheus) is not installed")
async def test_prometheus_reads_the_page_whatever_the_names(master: Master) -> None:
    """Its own parser, as `promtool check metrics` has it."""
    body = (await master.get("/metrics")).body
    checked = subprocess.run(  # noqa: ASYNC221 - nothing else is to go on meanwhile
        [str(PROMTOOL), "check", "metrics"], input=body, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stderr, checked.stdout) == (0, b"", b"")
