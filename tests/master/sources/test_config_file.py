"""The configured tree: swapped, broken, mended, gone."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from master.sources.config_file import observed
from tests.master.world import Master, running
from tests.support.waiting import eventually
from topo.model.errors import Refusal
from topo.model.observation import ConfigLoaded, SourceFailed

pytestmark = pytest.mark.virtual_time


def _tree(*nodes: str) -> str:
    return f"group: [{{name: g, kind: dragonfly, child: [{', '.join(nodes)}]}}]\n"


async def _shows(master: Master, *nodes: str) -> None:
    async def shown() -> bool:
        tree = (await master.get("/node_group")).json
        return isinstance(tree, list) and [c["name"] for c in tree[0]["child"]] == list(nodes)

    await eventually(shown)


async def _source(master: Master, state: str) -> str:
    async def is_so() -> bool:
        return bool((await master.get("/v1/topology")).json["sources"][0]["state"] == state)

    await eventually(is_so)
    return str((await master.get("/v1/topology")).json["sources"][0]["trouble"])


async def test_a_configmap_swap_is_followed(tmp_path: Path) -> None:
    """Kubernetes writes a new directory and renames the `..data` symlink over the old one."""
    for version, nodes in (("v1", ("a", "b")), ("v2", ("a", "c"))):
        (tmp_path / version).mkdir()
        (tmp_path / version / "nodegroup.yaml").write_text(_tree(*nodes))
    (tmp_path / "..data").symlink_to("v1")
    (tmp_path / "nodegroup.yaml").symlink_to("..data/nodegroup.yaml")
    async with running(f"--config-file={tmp_path / 'nodegroup.yaml'}") as master:
        await _shows(master, "a", "b")
        (tmp_path / "..data_tmp").symlink_to("v2")
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")
        await _shows(master, "a", "c")


async def test_a_broken_file_keeps_the_last_good_tree_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "nodegroup.yaml"
    path.write_text(_tree("a", "b"))
    async with running(f"--config-file={path}") as master:
        await _shows(master, "a", "b")
        path.write_text("group: [")
        assert await _source(master, "failing")
        assert (await master.get("/ready")).status == 200, "readiness does not go back"
        await _shows(master, "a", "b")
        path.write_text(_tree("a", "b"))
        assert await _source(master, "ok") == ""
        path.unlink()
        assert "does not exist" in await _source(master, "failing")
        path.write_text(_tree("a", "b", "c"))
        await _shows(master, "a", "b", "c")


async def test_a_doubt_about_the_file_is_said_once_per_content(tmp_path: Path) -> None:
    path = tmp_path / "nodegroup.yaml"
    path.write_text(_tree("a").replace("dragonfly", "dragonfy"))
    with capture_logs() as logs:
        async with running(f"--config-file={path}") as master:
            await _shows(master, "a")
            path.touch()
            await asyncio.sleep(0.15)
            path.write_text(_tree("a", "b"))
            await _shows(master, "a", "b")
    (doubt,) = [e["doubt"] for e in logs if "doubt" in e]
    assert "did you mean dragonfly?" in doubt


async def test_a_file_that_comes_late_makes_the_master_ready(tmp_path: Path) -> None:
    path = tmp_path / "nodegroup.yaml"
    async with running(f"--config-file={path}") as master:
        await _source(master, "failing")
        assert (await master.get("/ready")).status == 503
        path.write_text(_tree("a"))
        await master.ready()


async def test_the_served_document_is_valid_input(tmp_path: Path) -> None:
    path = tmp_path / "nodegroup.yaml"
    path.write_text(_tree("n10", "n9", "n1"))
    async with running(f"--config-file={path}") as master:
        await _shows(master, "n1", "n9", "n10")
        served = (await master.get("/node_group")).body
        tag = (await master.get("/node_group")).headers["ETag"]
        path.write_bytes(served)
        await _source(master, "ok")
        assert (await master.get("/node_group")).headers["ETag"] == tag


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"group:\n  - \xff\n", "line 2"),
        (Refusal("gone", "f", "fix"), "gone"),
        (b"groups: []\n", "group"),
        (b'{"group": [{"name": "box\\ud800", "kind": "leaf", "child": []}]}', "group[0].name"),
    ],
)
def test_what_is_no_tree_is_a_failure_with_its_place(content: bytes | Refusal, part: str) -> None:
    event, _ = observed(content)
    assert isinstance(event, SourceFailed)
    assert part in event.refusal


def test_the_charts_default_body_is_an_empty_tree() -> None:
    event, _ = observed(b"group:\n")
    assert isinstance(event, ConfigLoaded)
    assert event.declared.roots == ()
