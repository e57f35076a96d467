"""`topo parse` and `topo sim`: what needs no master."""

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
from topo.cli.exits import CliError, Exit
from topo.facts import FORMATS
from topo.sim.probe_outputs.metax import smi_topo
from topo.sim.worlds.presets import PRESET_NAMES, demo_world, nvlink_world


def test_a_warning_shows_nothing_that_a_terminal_obeys(
    topo: Topo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"format": "x", "warnings": ["odd line a\x1b[2J\u202eb"]}
    monkeypatch.setattr("topo.cli.probe_document.probe_document", lambda *_: said)
    (tmp_path / "probe").touch()
    shown = topo("parse", str(tmp_path / "probe"))
    assert "odd line a" in shown.stderr
    assert not {"\x1b", "\u202e"} & set(shown.output)


def test_parse_says_the_format_and_prints_what_it_understood(topo: Topo) -> None:
    shown = topo("parse", "-", input=smi_topo(demo_world().nodes[0]))
    assert shown.exit_code == Exit.OK, shown.stderr
    assert shown.stderr == "format: mx-smi-topo\n"
    told = json.loads(shown.stdout)
    assert told["format"] == "mx-smi-topo"
    assert [len(row) for row in told["matrix"]["links"][:8]] == [len(told["matrix"]["links"])] * 8


def test_parse_reads_every_probe_of_a_generated_recording(topo: Topo, tmp_path: Path) -> None:
    """The generator and the parsers agree on every format that a host has."""
    topo("sim", "generate", str(tmp_path), "0x1x2")
    folder = tmp_path / "recordings" / "node-sample1"
    texts = [file for file in folder.iterdir() if file.name != "bundle.json"]
    assert len(texts) == 7
    for file in texts:
        shown = topo("parse", str(file), "-o", "yaml")
        assert shown.exit_code == Exit.OK, (file, shown.stderr)
        assert yaml.safe_load(shown.stdout)["format"] in FORMATS


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-"], "in no format known"),
        (["-", "--format", "mx-smi-tpo"], "did you mean mx-smi-topo?"),
        (["-", "--format", "gibberish"], "formats: mx-exporter"),
        (["/nowhere"], "No such file"),
        (["/"], "Is a directory"),
    ],
)
def test_what_cannot_be_parsed_ends_with_2_and_the_reason(
    topo: Topo, arguments: list[str], words: str
) -> None:
    shown = topo("parse", *arguments, input="no probe printed this")
    assert shown.exit_code == Exit.USAGE
    assert shown.stdout == ""
    assert words in shown.stderr
    assert "next: " in shown.stderr


def test_bytes_that_are_no_text_are_refused(topo: Topo) -> None:
    shown = topo("parse", "-", input=bytes(range(256)) * 4)
    assert shown.exit_code == Exit.USAGE
    assert "Traceback" not in shown.output


def test_an_endless_input_is_cut(topo: Topo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topo.cli.commands.parse.MAX_INPUT_BYTES", 1 << 20)
    shown = topo("parse", "/dev/zero")
    assert shown.exit_code == Exit.USAGE
    assert "more than 1 MiB" in shown.stderr


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
