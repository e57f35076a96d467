"""`topo wiring check`: a plan beside dumps of a fabric, and beside the wires of a master."""

import csv
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.cli import gang_samples, samples
from tests.cli.conftest import FakeMaster, Topo
from tests.support.fabric import rails
from topo.cli.exit_codes import Exit

FABRICS = Path(__file__).resolve().parents[2].parent / "shared/data/fabrics"
HEADER = "a_node,a_port,z_node,z_port\n"


@pytest.fixture
def dumps(tmp_path: Path) -> tuple[Path, Path]:
    """A fabric of two units of two hosts, and the same with the plugs of two hosts exchanged."""
    units = [["gpu-01", "gpu-02"], ["gpu-03", "gpu-04"]]
    good, bad = rails(units, 2), rails(units, 2)
    one, other = bad.adapters["gpu-01"][1], bad.adapters["gpu-04"][1]
    far, other_far = bad.fabric.ends[one, 1], bad.fabric.ends[other, 1]
    bad.fabric.cable((one, 1), other_far[:2])
    bad.fabric.cable((other, 1), far[:2])
    bad.fabric.cut(bad.adapters["gpu-02"][0])
    files = tmp_path / "good.txt", tmp_path / "bad.txt"
    for file, built in zip(files, (good, bad), strict=True):
        file.write_text(built.text())
    return files


def test_a_swap_and_a_dead_cable_are_told_with_what_mends_them(
    topo: Topo, dumps: tuple[Path, Path]
) -> None:
    good, bad = map(str, dumps)
    shown = topo("wiring", "check", good, "--seen", good)
    assert (shown.exit_code, shown.stdout) == (
        Exit.OK,
        "12 planned cables: 12 connected as planned\n",
    )
    shown = topo("wiring", "check", good, "--seen", bad)
    assert shown.exit_code == Exit.FINDING
    assert "12 planned cables: 9 connected as planned, 2 swap, 1 missing" in shown.stdout
    assert "exchange the plugs in ib-su1-leaf-02 port 2 and" in " ".join(shown.stdout.split())
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_csv_has_a_line_for_each_cable_and_json_the_same(
    topo: Topo, dumps: tuple[Path, Path]
) -> None:
    good, bad = map(str, dumps)
    rows = list(
        csv.DictReader(
            topo("wiring", "check", good, "--seen", bad, "-o", "csv").stdout.splitlines()
        )
    )
    assert Counter(row["verdict"] for row in rows) == {"swap": 2, "missing": 1}
    assert {(row["planned_node"], row["found_node"]) for row in rows[:2]} == {
        ("gpu-01", "gpu-04"),
        ("gpu-04", "gpu-01"),
    }
    made = json.loads(topo("wiring", "check", good, "--seen", bad, "-o", "json").stdout)
    assert (made["planned"], made["right"]) == (12, 9)
    assert made["places"][0]["mended"] == 2
    assert made["places"][0]["findings"][0]["verdict"] == "swap"


def test_wires_between_nodes_are_compared_with_what_the_master_shows(
    topo: Topo, fake_master: FakeMaster, tmp_path: Path
) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(
        HEADER + "".join(f"node-{n},{s},node-{n + 1},{s}\n" for n in (1, 3) for s in (1, 2))
    )
    wires = [
        ("node-1", 1, "node-2", 1, "up"),
        ("node-1", 2, "node-3", 2, "up"),
        ("node-2", 2, "node-4", 2, "up"),
        ("node-3", 1, "node-4", 1, "down"),
    ]
    keys = ("node", "slot", "peer", "peer_slot", "state")
    fake_master.document["wires"] = [dict(zip(keys, wire, strict=True)) for wire in wires]
    text = " ".join(topo("wiring", "check", str(file)).stdout.split())
    assert "4 planned cables: 1 connected as planned, 2 swap, 1 missing" in text
    assert "missing node-3 port 1 - node-4 port 1" in text


def test_a_plan_or_a_dump_that_cannot_be_read_is_a_refusal_with_its_file_and_line(
    topo: Topo, dumps: tuple[Path, Path], tmp_path: Path
) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(HEADER + "a,1,b\n")
    shown = topo("wiring", "check", str(plan), "--seen", str(dumps[0]))
    assert shown.exit_code == Exit.USAGE
    assert f"{plan}, line 2" in shown.stderr
    shown = topo("wiring", "check", str(dumps[0]), "--seen", str(plan))
    assert (shown.exit_code, shown.stdout) == (Exit.USAGE, "")
    assert topo("wiring", "check", str(tmp_path / "none")).exit_code == Exit.USAGE


def test_a_dump_that_was_cut_off_is_no_plan_and_is_told_where_it_is_what_is_seen(
    topo: Topo, dumps: tuple[Path, Path], tmp_path: Path
) -> None:
    good, cut = dumps[0], tmp_path / "cut.txt"
    text = good.read_text()
    cut.write_text(text[: text.rindex("\n\n", 0, len(text) // 2) + 1])
    shown = topo("wiring", "check", str(cut), "--seen", str(good))
    assert (shown.exit_code, shown.stdout) == (Exit.USAGE, "")
    assert "a dump is cut off" in shown.stderr
    shown = topo("wiring", "check", str(good), "--seen", str(cut))
    assert "note: a dump is cut off, or the fabric changed meanwhile: " in shown.stdout


def test_each_finding_says_what_it_costs_in_groups_gpus_and_jobs(
    topo: Topo, fake_master: FakeMaster, tmp_path: Path
) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(HEADER + "node-1,1,node-2,1\nnode-3,1,node-4,1\n")
    fake_master.document = samples.troubled()
    wires = [("node-1", 1, "node-2", 1, "up"), ("node-3", 1, "node-4", 1, "down")]
    keys = ("node", "slot", "peer", "peer_slot", "state")
    fake_master.document["wires"] = [dict(zip(keys, wire, strict=True)) for wire in wires]
    waiting = {**gang_samples.waiting_gang(), "id": "later", "name": "later"}
    waiting["would_fit"] = "node-4 were Ready."
    fake_master.gangs = [gang_samples.gang(), waiting]
    made = json.loads(topo("wiring", "check", str(file), "--cost", "-o", "json").stdout)
    (finding,) = (each for place in made["places"] for each in place["findings"])
    assert finding["verdict"] == "missing"
    broken = {
        child["name"]
        for child in fake_master.document["groups"][0]["child"]
        if child["status"] == "NotReady" and "node-4" in {n["name"] for n in child["child"]}
    }
    assert set(finding["cost"]["groups"]) >= broken
    assert finding["cost"]["running"] == ["training/pytorch-demo"]
    assert finding["cost"]["waiting"] == ["training/later"]
    text = " ".join(topo("wiring", "check", str(file), "--cost").stdout.split())
    assert "jobs that wait for it: training/later" in text
    (row,) = csv.DictReader(
        topo("wiring", "check", str(file), "--cost", "-o", "csv").stdout.splitlines()
    )
    assert (row["jobs_across"], row["jobs_waiting"]) == ("training/pytorch-demo", "training/later")


@pytest.mark.skipif(not FABRICS.exists(), reason="no recorded fabrics here")
def test_a_recorded_fabric_gives_exactly_its_truth(topo: Topo) -> None:
    truth = json.loads((FABRICS / "ib/broken.truth.json").read_text())["truth_with_both_dumps"]
    plan = str(FABRICS / "plans/broken-fabric.plan.csv")
    words = ["--seen", str(FABRICS / "ib/broken.ibnetdiscover.out")]
    orphan = ["--seen", str(FABRICS / "ib/broken-orphan.ibnetdiscover.out")]
    shown = topo("wiring", "check", plan, *words, *orphan, "-o", "csv").stdout
    rows = list(csv.DictReader(shown.splitlines()))

    def of(*verdicts: str) -> set[tuple[str, ...]]:
        return {tuple(row.values())[2:6] for row in rows if row["verdict"] in verdicts}

    assert of("missing") == {tuple(each[:4]) for each in truth["missing"]}
    (moved,) = (row for row in rows if row["verdict"].startswith("wrong"))
    assert (moved["node"], moved["port"]) == tuple(truth["wrong_end"][0][:2])
    assert (moved["found_node"], moved["found_port"]) == ("ib-leaf-01", "20")
    assert {each[:2] for each in of("slow")} == {
        tuple(each[:2]) for each in truth["right_but_slow"]
    }
    assert {each[2] for each in of("unnamed")} == {e[0] for e in truth["right_but_unnamed"]}
    assert not of("unplanned", "unseen", "swap")
    alone = topo("wiring", "check", plan, *words, "-o", "json").stdout
    assert json.loads(alone)["counts"]["unseen"] == 8


def test_without_a_plan_the_findings_of_the_master_are_shown_as_ones_own_would_be(
    topo: Topo, fake_master: FakeMaster, dumps: tuple[Path, Path]
) -> None:
    """The plan that it holds: the same sheet and CSV, with the cost where it is asked for."""
    good, bad = map(str, dumps)
    own = topo("wiring", "check", good, "--seen", bad, "-o", "json")
    fake_master.broken["/v1/wiring"] = (200, own.stdout, {"Content-Type": "application/json"})
    for output in ("table", "csv", "json"):
        shown = topo("wiring", "check", "-o", output)
        told = topo("wiring", "check", good, "--seen", bad, "-o", output)
        assert (shown.exit_code, shown.stdout) == (Exit.FINDING, told.stdout)
    assert "groups_not_ready" in topo("wiring", "check", "--cost", "-o", "csv").stdout
    assert topo("wiring", "check", "--seen", bad).exit_code == Exit.USAGE


def test_of_two_dumps_of_one_fabric_the_file_that_was_written_last_is_what_is_seen(
    topo: Topo, dumps: tuple[Path, Path]
) -> None:
    good, bad = dumps
    bad.write_text(bad.read_text().replace("2026", "2020"))
    for file, at in ((good, 1_000), (bad, 2_000)):
        os.utime(file, (at, at))
    shown = topo("wiring", "check", str(good), "--seen", str(good), "--seen", str(bad))
    assert "2 swap" in shown.stdout
    os.utime(good, (3_000, 3_000))
    shown = topo("wiring", "check", str(good), "--seen", str(good), "--seen", str(bad))
    assert "12 connected as planned" in shown.stdout
