"""`topo parse`: a short table for people, documents for programs, every output of a log."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Topo
from tests.support.fabric import rails
from topo.cli.exit_codes import Exit
from topo.cli.render.probe import COLUMNS
from topo.cli.worlds import chosen
from topo.facts import FORMATS
from topo.sim.bundles import bundle_of
from topo.sim.probe_outputs.metax import smi_topo
from topo.sim.worlds.presets import PRESET_NAMES, demo_world

SCREEN = 24
HEAD = "GPU {0}: NVIDIA R900 (UUID: GPU-6968dfc2-d444-d92c-c36b-00000000000{0})"
SLOW = "\n".join(
    [
        HEAD.format(0),
        *(f"\t Link {link}: {1.562 if link in (2, 3) else 26.562} GB/s" for link in range(4)),
        HEAD.format(1),
        *(f"\t Link {link}: 26.562 GB/s" for link in range(4)),
        "",
    ]
)
MATRIX = "\tGPU0\tGPU1\tmlx5_0\tmlx5_1\tCPU Affinity\tNUMA Affinity\n" + "".join(
    f"{row}\t{cells}\n"
    for row, cells in (
        ("GPU0", " X \tNV18\tPIX\tSYS\t0-31\t0"),
        ("GPU1", "NV18\t X \tSYS\tPIX\t32-63\t1"),
        ("mlx5_0", "PIX\tSYS\t X \tSYS\t\t"),
        ("mlx5_1", "SYS\tPIX\tSYS\t X \t\t"),
    )
)
P2P = " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n"
LOG = f"{SLOW}\n{MATRIX}\n{P2P}"


def lines_of(text: str) -> list[str]:
    """The lines of a table; none ends with a blank."""
    lines = text.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    return lines


def test_a_matrix_is_a_short_table(topo: Topo) -> None:
    """What it is, GPUs, islands, NICs, NUMA nodes, warnings: nothing else, on standard output."""
    shown = topo("parse", "-", input=MATRIX)
    assert (shown.exit_code, shown.stderr) == (Exit.OK, "")
    assert lines_of(shown.stdout) == [
        "nvidia-smi-topo  nvidia-smi topo -m",
        "  GPUs      2  GPU 0-1",
        "  islands   1  GPU 0-1, NV18",
        "  NICs      2  mlx5_0-1",
        "  NUMA      0  GPU 0, CPUs 0-31",
        "            1  GPU 1, CPUs 32-63",
        "  warnings  none",
    ]


def test_degraded_links_are_counted_and_named(topo: Topo) -> None:
    """And what the output does not state is said to be that."""
    shown = topo("parse", "-", input=SLOW)
    assert lines_of(shown.stdout) == [
        "nvlink-status  nvidia-smi nvlink -s",
        "  GPUs        2  NVIDIA R900",
        "  links       6 up, 2 degraded",
        "              GPU 0 links 2-3: degraded: 1.562 GB/s, its siblings 26.562 GB/s",
        "  not stated  islands, NICs, NUMA",
        "  warnings    none",
    ]


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_every_probe_of_every_world_fits_a_screen(topo: Topo, preset: str) -> None:
    """80 columns and 24 lines, through a pipe too."""
    for probe in bundle_of(chosen(preset).nodes[0]).probes:
        shown = topo("parse", "-", input=probe.text)
        assert shown.exit_code == Exit.OK, (probe.probe, shown.stderr)
        lines = lines_of(shown.stdout)
        assert len(lines) <= SCREEN, lines
        assert max(map(len, lines)) <= COLUMNS, lines


def test_long_names_and_many_warnings_fold_and_are_counted(topo: Topo) -> None:
    """What does not fit is said to be in the JSON."""
    heads = "".join(f"{HEAD.format(i)}\n\t Link 0: {'x' * 90}\n" for i in range(9))
    text = heads.replace("R900", "R900 " + "with a very long name " * 6)
    shown = topo("parse", "-", "--format", "nvlink-status", input=text)
    lines = lines_of(shown.stdout)
    assert max(map(len, lines)) <= COLUMNS
    assert lines[-1].strip() == "… 3 more: -o json has all"
    document = json.loads(
        topo("parse", "-", "--format", "nvlink-status", "-o", "json", input=text).stdout
    )
    assert len(document["warnings"]) == 9


def test_a_log_says_that_it_has_several_outputs(topo: Topo) -> None:
    """The first that is read is shown, with its lines; the others are named with theirs."""
    shown = topo("parse", "-", input=LOG)
    assert shown.exit_code == Exit.OK
    flat = " ".join(shown.stdout.split())
    assert "nvlink-status nvidia-smi nvlink -s lines 1-10" in flat
    assert (
        "3 outputs are in this text (nvlink-status at lines 1-10, nvidia-smi-topo at lines 12-16, "
        "nvidia-smi-p2p at lines 18-20): lines 1-10 are shown, --all shows all"
    ) in flat


def test_all_outputs_of_a_log_are_shown_with_their_lines(topo: Topo) -> None:
    """One that is not read says why and what to give."""
    shown = topo("parse", "-", "--all", input=LOG)
    assert shown.exit_code == Exit.OK
    heads = [line for line in lines_of(shown.stdout) if line and not line.startswith(" ")]
    assert heads == [
        "nvlink-status  nvidia-smi nvlink -s  lines 1-10",
        "nvidia-smi-topo  nvidia-smi topo -m  lines 12-16",
        "nvidia-smi-p2p  lines 18-20",
    ]
    assert "  not read  this is a peer-to-peer matrix by nvidia-smi topo -p2p" in shown.stdout
    told = json.loads(topo("parse", "-", "--all", "-o", "json", input=LOG).stdout)["outputs"]
    assert [one["lines"] for one in told] == [[1, 10], [12, 16], [18, 20]]
    assert len(told[0]["gpus"]) == 2
    assert told[1]["matrix"]["nics"] == ["mlx5_0", "mlx5_1"]
    assert set(told[2]["refused"]) == {"what", "where", "fix"}


def test_a_named_format_picks_its_outputs_from_a_log(topo: Topo) -> None:
    shown = topo("parse", "-", "--format", "nvidia-smi-topo", input=LOG)
    assert lines_of(shown.stdout)[:2] == [
        "nvidia-smi-topo  nvidia-smi topo -m",
        "  GPUs      2  GPU 0-1",
    ]


def test_a_log_of_nothing_readable_is_refused_and_names_all(topo: Topo) -> None:
    """Alone with the reason of the first; with `--all` with all reasons, and the same code."""
    text = f"{P2P}\nCA 'mlx5_0'\n\tCA type: MT4129\n"
    alone = topo("parse", "-", input=text)
    assert (alone.exit_code, alone.stdout) == (Exit.USAGE, "")
    assert "2 outputs are in this text" in alone.stderr
    assert "--all" in alone.stderr
    every = topo("parse", "-", "--all", input=text)
    assert every.exit_code == Exit.USAGE
    assert every.stdout.count("\n  not read  ") == 2


def test_json_is_the_document_and_standard_error_has_the_warnings(topo: Topo) -> None:
    shown = topo("parse", "-", "-o", "json", input=smi_topo(demo_world().nodes[0]))
    assert shown.exit_code == Exit.OK, shown.stderr
    assert shown.stderr == "format: mx-smi-topo\n"
    told = json.loads(shown.stdout)
    assert told["format"] == "mx-smi-topo"
    assert [len(row) for row in told["matrix"]["links"][:8]] == [len(told["matrix"]["links"])] * 8
    log = topo("parse", "-", "-o", "json", input=LOG)
    assert json.loads(log.stdout)["format"] == "nvlink-status"
    assert "warning: 3 outputs are in this text" in log.stderr


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_warning_shows_nothing_that_a_terminal_obeys(topo: Topo, output: str) -> None:
    text = f"{HEAD.format(0)}\n\t Link 0: odd \u202eline\n\t Link 1: 26.562 GB/s\n"
    shown = topo("parse", "-", "-o", output, input=text)
    assert "GPU 0 link 0: odd" in shown.output
    assert "\u202e" not in shown.output


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


def test_a_nodegroup_is_told_by_its_kinds(topo: Topo, tmp_path: Path) -> None:
    topo("sim", "generate", str(tmp_path), "2x2x2")
    shown = topo("parse", str(tmp_path / "nodegroup.yaml"))
    assert lines_of(shown.stdout) == [
        "nodegroup",
        "  groups    4 dragonfly, 8 node, 2 switchbox",
        "  warnings  none",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-"], "in no format known"),
        (["-", "--format", "mx-smi-tpo"], "did you mean mx-smi-topo?"),
        (["-", "--format", "gibberish"], "formats: ibnetdiscover"),
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


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "NVML: Unable to retrieve Nvlink information as all links are inActive",
            "none active of GPU 0",
        ),
        ("Device does not have or support Nvlink", "none: NVLink is not supported by GPU 0"),
    ],
)
def test_links_that_the_tool_says_are_none_are_told_from_links_not_stated(
    topo: Topo, tmp_path: Path, line: str, told: str
) -> None:
    file = tmp_path / "status.txt"
    file.write_text(f"GPU 0: NVIDIA GH200 480GB (UUID: GPU-93364fc3-0daa-b578)\n{line}\n")
    assert f"links       {told}" in topo("parse", str(file)).stdout
    assert json.loads(topo("parse", str(file), "-o", "json").stdout)["absent_links"] == [told]


def test_a_dump_of_a_fabric_is_told_by_its_devices_and_the_groups_of_its_hosts(topo: Topo) -> None:
    built = rails([["gpu-01", "gpu-02"], ["gpu-03", "gpu-04"]], 2)
    nameless = built.fabric.adapter("MT4129 ConnectX7   Mellanox Technologies")
    built.fabric.plug(nameless, built.leaves["ib-su1-leaf-01"])
    storage = built.fabric.adapter("store-1 mlx5_0"), built.fabric.adapter("store-1 mlx5_1")
    built.fabric.plug(storage[0], built.leaves["ib-su1-leaf-01"])
    built.fabric.plug(storage[1], built.leaves["ib-su2-leaf-01"], "4xHDR")
    shown = topo("parse", "-", input=built.text())
    assert shown.exit_code == Exit.OK
    assert lines_of(shown.stdout) == [
        "ibnetdiscover  ibnetdiscover",
        "  devices   5 switches, 11 adapters (1 without a host name)",
        "            cables  1 4xHDR, 14 4xNDR",
        "  groups    ib-spine-01/ib-su1-leaf-01  2 leaves, 2 hosts: gpu-01 and gpu-02",
        "            ib-spine-01/ib-su2-leaf-01  2 leaves, 2 hosts: gpu-03 and gpu-04",
        "            store-1 has cables in several groups: ib-su1-leaf-01 and",
        "            ib-su2-leaf-01",
        "  warnings  none",
    ]
    found = json.loads(topo("parse", "-o", "json", "-", input=built.text()).stdout)
    assert len(found["fabric"]["cables"]) == 15
    assert found["fabric"]["cables"][0]["rate"] == "4xNDR"


def test_a_dump_of_thousands_of_hosts_is_read_and_no_other_text_of_that_size(topo: Topo) -> None:
    """A dump of 10,000 hosts has 30 MB; here comments are what makes it large."""
    comments = f"# {'x' * 98}\n" * 110_000
    text = (
        f"# Topology file: generated on Fri Nov 27 13:18:40 2026\n{comments}"
        + rails([["gpu-01", "gpu-02"]], 2).text()
    )
    for flags in ((), ("--format", "ibnetdiscover")):
        found = topo("parse", "-", *flags, input=text)
        assert "3 switches, 4 adapters" in found.stdout
    refused = topo("parse", "-", input=comments)
    assert refused.exit_code == Exit.USAGE
    assert "more than the 10485760 that are read" in refused.stderr
