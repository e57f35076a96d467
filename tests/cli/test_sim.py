"""`topo sim`: recordings, worlds and the simulated manager."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Topo
from tests.support.waiting import CEILING_S
from topo.cli import worlds
from topo.cli.exit_codes import CliError, Exit
from topo.sim.worlds.presets import PRESET_NAMES, nvlink_world


def test_a_generated_nodegroup_states_the_whole_world(topo: Topo, tmp_path: Path) -> None:
    assert topo("sim", "generate", str(tmp_path), "2x1x2").exit_code == Exit.OK
    told = yaml.safe_load((tmp_path / "nodegroup.yaml").read_text())["group"]
    assert [box["name"] for box in told] == ["switchbox-sample1", "switchbox-sample2"]
    pairs = [[leaf["name"] for leaf in box["child"][0]["child"]] for box in told]
    assert pairs == [["node-sample1", "node-sample2"], ["node-sample3", "node-sample4"]]


def test_an_nvlink_world_is_told_by_domain_and_clique() -> None:
    (domain,) = worlds.nodegroup(nvlink_world(1, 4, cliques=2))["group"]
    assert domain["kind"] == "nvlink-domain"
    assert [len(clique["child"]) for clique in domain["child"]] == [2, 2]


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_every_preset_is_a_world(name: str) -> None:
    assert worlds.chosen(name).name == name


@pytest.mark.parametrize("name", ["dem", "2x2", "0x0x1", "1x1x1x99", "9999x9999x9999", "metax"])
def test_an_impossible_world_is_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(CliError) as refused:
        worlds.chosen(name)
    assert refused.value.exit_code == Exit.USAGE
    assert refused.value.refusal.fix


def test_generating_where_nothing_can_be_written_ends_with_2(topo: Topo) -> None:
    assert topo("sim", "generate", "/proc/no").exit_code == Exit.USAGE


def test_the_simulated_manager_serves_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "topo.cli.main", "sim", "clustermanager", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["url"].startswith("https://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        assert process.wait(CEILING_S) == 0


def test_a_manager_whose_port_is_taken_says_so(topo: Topo, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = str(holder.getsockname()[1])
        shown = topo("sim", "clustermanager", str(tmp_path), "--port", port)
    assert shown.exit_code == Exit.FINDING
    assert f"port {port}" in shown.stderr
