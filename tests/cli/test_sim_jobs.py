"""`topo sim place` and `topo sim stream`: policies side by side, no master needed."""

import csv
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import Topo
from topo.cli import sim_files
from topo.cli.exit_codes import Exit
from topo.sim.baselines import BASELINES
from topo.sim.streams.figures import Figures
from topo.sim.streams.jobs import MIXES, Flow, draw_jobs
from topo.sim.streams.stream import EXTRA_DOMAINS, POLICIES, run
from topo.sim.worlds.maps import MACHINES, capacity_of, grid

SMALL = ("--cluster", "2x3x8", "--jobs", "40")


def rows(text: str) -> dict[str, list[str]]:
    """The cells of each policy's row."""
    cells = (line.split() for line in text.splitlines() if line.strip())
    return {row[0]: row[1:] for row in cells if row[0] in POLICIES}


def test_one_job_is_placed_by_every_policy(topo: Topo) -> None:
    shown = topo("sim", "place", "--nodes", "300", "--pods", "16", "--shape", "8+16")
    assert shown.exit_code == Exit.OK, shown.stderr
    found = rows(shown.stdout)
    assert found.keys() == {"topo", *BASELINES}
    assert found["topo"][0] == "0"
    assert found["topo"][1] <= found["ascend"][1]
    assert "300 nodes in domains of 8+16, 60% booked, seed 1: 16 pods of 8 GPUs" in shown.stdout
    assert "without counting all nodes" in shown.stdout


def test_a_job_that_cannot_be_is_refused_in_the_words_of_the_options(topo: Topo) -> None:
    for wrong, option in ((("--group-size", "63"), "--group-size"), (("--pods", "0"), "--pods")):
        shown = topo("sim", "place", *wrong)
        assert shown.exit_code == Exit.USAGE
        assert f"at {option}" in shown.stderr
        assert "gpus_per_pod" not in shown.stderr


def test_a_job_that_does_not_fit_says_why(topo: Topo) -> None:
    shown = topo("sim", "place", "--nodes", "40", "--pods", "64", "--group-size", "0")
    assert shown.exit_code == Exit.OK, shown.stderr
    assert set(map(tuple, (row[:2] for row in rows(shown.stdout).values()))) == {("no", "place")}
    assert "topo: the job needs 512 GPUs" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["place", "--nodes", "10", "--pods", "0"], "pods is 0"),
        (["place", "--nodes", "10", "--gpus", "3"], "not a whole number of pods of 3 GPUs"),
        (["stream", "--cluster", "3x3"], "'3x3' is not a size of a cluster"),
        (["stream", "--cluster", "99x99x99"], "up to 20,000 nodes"),
        (["stream", "--policy", "slurm", *SMALL], "take one of topo, topo-preferred"),
        (["stream", "--map", "/nowhere.csv"], "No such file"),
        (["stream", "--trace", "/nowhere.csv", *SMALL], "No such file"),
        (["stream", "--policy", "topo", "--csv", "/", *SMALL], "Is a directory"),
        (["stream", "--mix", "openb"], "openb"),
    ],
)
def test_what_cannot_be_simulated_is_said(topo: Topo, arguments: list[str], words: str) -> None:
    shown = topo("sim", *arguments)
    assert shown.exit_code == Exit.USAGE
    assert words in shown.stderr


def test_a_stream_is_run_under_every_policy(topo: Topo) -> None:
    shown = topo("sim", "stream", *SMALL, "--load", "1.2", "--mix", "llm-tails")
    assert shown.exit_code == Exit.OK, shown.stderr
    found = rows(shown.stdout)
    assert list(found) == list(POLICIES)
    assert found["topo"][1] == "0.0"
    assert "2x3x8 nodes, 1 x 40 jobs of llm-tails, load 1.2" in shown.stdout


def test_with_a_reservation_the_title_says_so_and_big_jobs_wait_less(topo: Topo) -> None:
    size = ("--cluster", "2x4x8", "--jobs", "200", "--load", "1.5", "--mix", "uneven")
    arguments = (*size, "--policy", "topo")
    free, reserved = (topo("sim", "stream", *arguments, *more) for more in ((), ("--reservation",)))
    assert reserved.exit_code == Exit.OK, reserved.stderr
    assert "load 1.5, the first big job reserved" in reserved.stdout
    big_wait = 5
    waits = [float(rows(each.stdout)["topo"][big_wait]) for each in (free, reserved)]
    assert waits[1] < waits[0] / 2


def test_a_map_and_a_trace_of_the_user_are_played(topo: Topo, tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    lines = [f"n{n},rack-{n // 4}" for n in range(16)]
    nodes.write_text("\n".join(["node,rack", *lines]))
    pods.write_text("name,num_gpu,gpu_milli\na,8,1000\nb,1,1000\n")
    arguments = ("--map", str(nodes), "--trace", str(pods), "--jobs", "20", "--policy", "topo")
    shown = topo("sim", "stream", *arguments)
    assert shown.exit_code == Exit.OK, shown.stderr
    assert "nodes.csv, 16 nodes, 1 x 20 jobs of pods.csv" in shown.stdout
    assert list(rows(shown.stdout)) == ["topo"]


@pytest.mark.parametrize("machine", MACHINES)
def test_a_machine_that_exists_is_a_cluster_by_its_name(topo: Topo, machine: str) -> None:
    few = ("--jobs", "5", "--policy", "topo")
    shown = topo("sim", "stream", "--cluster", machine, *few)
    assert shown.exit_code == Exit.OK, shown.stderr
    assert f"{machine}, {len(MACHINES[machine]()):,} nodes" in shown.stdout


def test_the_csv_has_a_line_for_every_policy_and_stream(topo: Topo, tmp_path: Path) -> None:
    file = tmp_path / "figures.csv"
    policies = ("--policy", "topo", "--policy", "random")
    shown = topo("sim", "stream", *SMALL, *policies, "--seeds", "2", "--csv", str(file))
    assert shown.exit_code == Exit.OK, shown.stderr
    lines = list(csv.DictReader(file.read_text().splitlines()))
    assert [(line["policy"], line["stream"]) for line in lines] == [
        ("topo", "1"), ("topo", "2"), ("random", "1"), ("random", "2"),
    ]  # fmt: skip
    assert lines[0].keys() == {"stream", *Figures.__slots__}
    assert float(lines[0]["split_groups_pct"]) == 0


def test_the_picture_is_well_formed_and_draws_every_policy(tmp_path: Path) -> None:
    capacity = capacity_of(grid(2, 3, 8))
    jobs = draw_jobs(MIXES["llm"], Flow(jobs=40, load=1.0, capacity_gpus=384), 1)
    found = {policy: [run(capacity, jobs, policy)] for policy in ("topo", "random")}
    file = tmp_path / "figures.svg"
    sim_files.write(file, sim_files.as_svg(found, 'jobs < 41 & "more"'))
    picture = ET.parse(file).getroot()  # noqa: S314 - we wrote it
    words = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {'jobs < 41 & "more"', "topo", "random", "over-span %"} <= set(words)
    bars = [bar for bar in picture.iter("{http://www.w3.org/2000/svg}rect") if "x" in bar.attrib]
    assert len(bars) == 2 * len(sim_files.PANELS)
    assert all(float(bar.attrib["width"]) >= 0 for bar in bars)


def test_the_trade_off_has_a_point_for_each_policy_that_splits_nothing_and_a_line_for_ours(
    topo: Topo, tmp_path: Path
) -> None:
    file = tmp_path / "trade-off.svg"
    policies = ("topo", *EXTRA_DOMAINS, "kueue-best-fit", "random")
    chosen = (word for policy in policies for word in ("--policy", policy))
    shown = topo("sim", "stream", *SMALL, "--mix", "uneven", *chosen, "--trade-off", str(file))
    assert shown.exit_code == Exit.OK, shown.stderr
    picture = ET.parse(file).getroot()  # noqa: S314 - we wrote it
    space = "{http://www.w3.org/2000/svg}"
    words = {
        word
        for text in picture.iter(f"{space}text")
        for word in (text.text, *str(text.text).split(", "))
    }
    assert {"topo", *EXTRA_DOMAINS, "kueue-best-fit"} <= words, "equal points share a line of words"
    assert "random" not in words
    assert {"integrity %, higher is better", "over-span %, lower is better"} <= words
    (line,) = picture.iter(f"{space}polyline")
    points = {(dot.attrib["cx"], dot.attrib["cy"]) for dot in picture.iter(f"{space}circle")}
    ours = [tuple(point.split(",")) for point in line.attrib["points"].split()]
    assert len(ours) == 1 + len(EXTRA_DOMAINS)
    assert set(ours) <= points
