"""The parts of `topo demo`: its faults, what it says, its command lines."""

import io
import json
import os
import re
import shlex
import tempfile
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.conftest import NODES, Topo
from topo.cli import worlds
from topo.cli.demo import plan, suggestions
from topo.cli.demo.messages import Messages
from topo.cli.demo.prometheus import Prometheus
from topo.cli.demo_directory import Demo, DemoDirectory, directory
from topo.cli.exit_codes import Exit
from topo.recording.possible import facts_of, impossible
from topo.recording.timeline import parse_faults
from topo.sim.bundles import bundle_of, write_bundle
from topo.sim.kubernetes import access
from topo.sim.worlds.presets import demo_world, nvlink_world, world


def faults_of(demo: Demo, node: str) -> str:
    return (demo.replay_dir(node) / "faults.txt").read_text()


# --- faults


def test_a_cut_pulls_both_ends_and_heal_mends_them(demo: Demo, topo: Topo) -> None:
    shown = topo("demo", "cut", "node-sample3")
    assert shown.exit_code == Exit.OK
    sentences = ["remote 1 of node-sample3 vanishes", "remote 1 of node-sample4 vanishes"]
    assert shown.stdout.splitlines() == sentences
    assert faults_of(demo, "node-sample3") == f"{sentences[0]}\n"
    assert faults_of(demo, "node-sample4") == f"{sentences[1]}\n"
    assert topo("demo", "heal").stdout == "2 healed\n"
    assert faults_of(demo, "node-sample3") == ""
    assert topo("demo", "heal").stdout == "nothing was broken\n"


def test_any_sentence_begins_or_ends_a_fault(demo: Demo, topo: Topo) -> None:
    topo("demo", "cut", "node-sample1")
    assert topo("demo", "fault", "gpu 2 of node-sample1 fails").exit_code == Exit.OK
    assert len(faults_of(demo, "node-sample1").splitlines()) == 2
    topo("demo", "fault", "remote 1 of node-sample1 returns")
    assert faults_of(demo, "node-sample1") == "gpu 2 of node-sample1 fails\n"
    again = topo("demo", "fault", "remote 1 of node-sample1 returns")
    assert again.stdout == "remote 1 of node-sample1 returns: it was not broken\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cut", "node-sample9"], "the demo has no node 'node-sample9'"),
        (["cut", "../../etc"], "the demo has no node"),
        (["cut", "node-sample1", "--slot", "2"], "node-sample1 has no remote 2"),
        (["fault", "gpu 2 of node-sample1 flies"], "did you mean"),
        (["fault", "gpu 2 of node-sample99 fails"], "no node 'node-sample99'"),
        (["fault", "gpu 8 of node-sample1 fails"], "next: it has GPUs 0 to 7"),
        (["fault", "remote 2 of node-sample1 vanishes"], "next: it has remote 1"),
        (["fault", "fabric of gpu 0 of node-sample1 breaks"], "node-sample1 has no NVLink fabric"),
        (["fault", "link 5 of gpu 0 of node-sample1 goes down"], "next: it has links 0 to 4"),
    ],
)
def test_a_fault_of_something_that_is_not_there_is_refused(
    demo: Demo, topo: Topo, arguments: list[str], words: str
) -> None:
    shown = topo("demo", *arguments)
    assert shown.exit_code == Exit.USAGE
    assert words in shown.stderr
    assert not list(Path(demo.recordings).rglob("faults.*"))


def test_what_is_not_named_is_asked_for_with_what_works_in_this_demo(
    demo: Demo, topo: Topo
) -> None:
    shown = topo("demo", "cut")
    assert shown.exit_code == Exit.USAGE
    assert "  at NODE\n" in shown.stderr
    words = f"`topo demo cut {demo.nodes[0]}`; nodes with a cable: {NODES[0]} to {NODES[-1]}"
    assert words in " ".join(shown.stderr.split())
    assert topo("demo", "cut", demo.nodes[0]).exit_code == Exit.OK
    asked = topo("demo", "fault")
    assert asked.exit_code == Exit.USAGE
    assert "  at SENTENCE\n" in asked.stderr
    told = re.findall(r"`topo demo fault '([^']+)'`", " ".join(asked.stderr.split()))
    assert "gpu 0 of node-sample1 fails" in told
    for sentence in told:
        assert topo("demo", "fault", sentence).exit_code == Exit.OK


def test_a_cut_in_a_world_without_cables_names_what_can_break(
    home: DemoDirectory, topo: Topo
) -> None:
    recordings = home.path / "recordings"
    node = nvlink_world(1, 18).nodes[2]
    write_bundle(recordings / node.name, node)
    home.publish(Demo("http://127.0.0.1:9", str(recordings), (str(node.name),), "nvl72-18x4"))
    shown = topo("demo", "cut", "node-3")
    assert shown.exit_code == Exit.USAGE
    assert "node-3 has no remote" in shown.stderr
    assert "  at NODE\n" in shown.stderr, "nobody gave a slot"
    assert "possible there: `gpu 0 of node-3 fails`, `link 0 of gpu 0 of node-3" in shown.stderr
    assert "`fabric of gpu 0 of node-3 breaks`" in shown.stderr
    unnamed = " ".join(topo("demo", "cut").stderr.split())
    assert "no node of this demo has a cable to another; such as `topo demo fault" in unnamed


# --- the banner


@pytest.mark.parametrize(
    ("world_name", "breaks", "job"),
    [
        ("demo", "demo cut node-sample3", "--pods 2 --gpus 8"),
        ("nvl72-18x4", "demo fault 'fabric of gpu 2 of node-3 breaks'", "--pods 2 --gpus 4"),
        (
            "ascend-a3-2x4x16",
            "demo fault 'super pod 7 of node-3 is stated'",
            "--pods 2 --gpus 16",
        ),
        ("metax-c500-2x8", "demo cut node-1", "--pods 2 --gpus 8"),
        ("0x1x1x4", "demo fault 'gpu 0 of node-sample1 fails'", "--pods 1 --gpus 4"),
    ],
)
def test_what_is_suggested_can_be_done_in_that_world(
    world_name: str, breaks: str, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggestions, "command", lambda: "topo")
    simulated = worlds.chosen(world_name)
    pids = {"topo-worker node-3": 42}
    told = Demo("http://127.0.0.1:9001", "/x", (), world_name, pids, kubernetes="/x/kubernetes")
    commands = [command for command, _ in suggestions.tries(simulated, told)]
    assert ("topo demo submit" in commands) == (len(simulated.nodes) > 1)
    assert commands[0] == f"topo {breaks}"
    assert f"topo place {job}" in commands
    node = simulated.nodes[2 if len(simulated.nodes) > 2 else 0]
    assert ("kill -9 42" in commands) == (node.name == "node-3")
    sentence = shlex.split(commands[0])[-1]
    if "cut" in commands[0]:
        sentence = f"remote 1 of {node.name} vanishes"
    faults = parse_faults(sentence)
    assert isinstance(faults, frozenset)
    assert [impossible(each, facts_of(bundle_of(node))) for each in faults] == [None]


def test_another_terminal_is_told_where_to_go_and_which_demo_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOPO_DEMO_DIR", str(tmp_path / "my demo"))
    monkeypatch.setattr(suggestions, "command", lambda: ".venv/bin/topo")
    assert suggestions.preparation() == [
        f"cd {Path.cwd()}",
        f"export TOPO_DEMO_DIR='{tmp_path}/my demo'",
    ]
    monkeypatch.delenv("TOPO_DEMO_DIR")
    monkeypatch.setattr(suggestions, "command", lambda: "topo")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/tmp")  # noqa: S108 - the usual one
    assert suggestions.preparation() == []


def test_the_banner_of_a_world_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    long = f"/home/somebody/{'projects/' * 8}.venv/bin/topo"
    monkeypatch.setattr(suggestions, "command", lambda: long)
    simulated = worlds.chosen("nvl72-18x4")
    out = io.StringIO()
    said = Messages(Console(file=out, width=80, highlight=False))
    ports = plan.DemoPorts(1, 2, 3, kubernetes=4, admission=5)
    said.print_starting(simulated, ports, plan.DemoPorts(9001, 2, 9443))
    said.print_suggestions(simulated, Demo("http://127.0.0.1:1", "/x", (), "nvl72-18x4"))
    lines = out.getvalue().splitlines()
    assert lines[:2] == [
        "starting a Kubernetes, 18 workers and a master on this machine",
        "port 9001 is taken, using 1 instead",
    ]
    assert max(map(len, lines)) <= 80
    assert f"{long}tree--watch" in "".join(out.getvalue().split())


def test_status_shows_processes_and_faults(demo: Demo, topo: Topo) -> None:
    assert "nothing is broken" in topo("demo", "status").stdout
    topo("demo", "cut", "node-sample3")
    shown = topo("demo", "status").stdout
    assert "● topo-master  pid 42" in shown
    assert "✗ remote 1 of node-sample4 vanishes" in shown
    told = json.loads(topo("demo", "status", "-o", "json").stdout)
    assert told["master"] == demo.master
    assert told["faults"][0] == "remote 1 of node-sample3 vanishes"


def test_status_shows_nothing_that_a_terminal_obeys(home: DemoDirectory, topo: Topo) -> None:
    evil = "a\x1b[2J\u202eb"
    home.publish(Demo(f"http://{evil}", str(home.path / "recordings"), (), "demo", {evil: 42}))
    shown = topo("demo", "status")
    assert shown.exit_code == Exit.OK
    assert not {"\x1b", "\u202e"} & set(shown.stdout)


@pytest.mark.parametrize("command", [["cut"], ["cut", "n"], ["heal"], ["status"], ["fault"]])
def test_without_a_demo_the_next_step_is_to_start_one(topo: Topo, command: list[str]) -> None:
    shown = topo("demo", *command)
    assert shown.exit_code == Exit.FINDING
    assert "next: start one with `topo demo`" in shown.stderr


def test_tree_finds_the_demo_by_itself(demo: Demo, topo: Topo) -> None:
    shown = topo("tree", env={})
    assert shown.exit_code == Exit.UNREACHABLE
    assert demo.master in shown.stderr


# --- command lines


def test_elsewhere_than_on_linux_the_demo_says_so(
    topo: Topo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    shown = topo("demo", "--once")
    assert shown.exit_code == Exit.USAGE
    assert "run it on Linux" in shown.stderr


def test_an_unknown_world_is_refused_before_anything_starts(topo: Topo) -> None:
    shown = topo("demo", "--world", "narnia")
    assert shown.exit_code == Exit.USAGE
    assert not directory().exists()


def test_without_the_program_prometheus_is_refused_with_how_to_get_it(
    topo: Topo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    shown = topo("demo", "--prometheus")
    assert shown.exit_code == Exit.USAGE
    assert "no program `prometheus`" in shown.stderr
    assert "apt install prometheus" in shown.stderr
    assert not directory().exists()


def test_alert_rules_without_who_judges_by_them_are_refused(topo: Topo, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("groups: []")
    shown = topo("demo", "--alert-rules", str(rules))
    assert shown.exit_code == Exit.USAGE
    assert "give --prometheus too" in shown.stderr


def test_prometheus_reads_the_master_and_each_worker_by_the_name_of_its_node(
    tmp_path: Path,
) -> None:
    files, small = plan.DemoFiles(tmp_path), world(0, 1, 2)
    names = [str(node.name) for node in small.nodes]
    ports = plan.DemoPorts(1, 2, 3, prometheus=4, workers=(5, 6))
    plan.prepare(files, small, ports)
    made = Prometheus("/bin/prometheus", tmp_path / "rules.yaml").program(files, names, ports)
    config = json.loads((files.prometheus / "prometheus.yml").read_text())
    master, workers = (each["static_configs"] for each in config["scrape_configs"])
    assert master == [{"targets": ["127.0.0.1:1"]}]
    assert [(each["labels"]["node"], each["targets"]) for each in workers] == [
        (names[0], ["127.0.0.1:5"]),
        (names[1], ["127.0.0.1:6"]),
    ]
    assert config["rule_files"] == [str(tmp_path / "rules.yaml")]
    assert "--web.listen-address=127.0.0.1:4" in made.argv
    started = plan.programs(files, small, "0x1x2", ports)
    assert [each.argv[3] for each in started if each.name.startswith("topo-worker")] == [
        "--metrics-address=127.0.0.1:5",
        "--metrics-address=127.0.0.1:6",
    ]


def test_secrets_are_files_and_never_arguments(tmp_path: Path) -> None:
    files, ports = plan.DemoFiles(tmp_path), plan.DemoPorts(1, 2, 3, kubernetes=4, admission=5)
    plan.prepare(files, demo_world(), ports)
    secrets = [files.worker_token(node).read_text() for node in NODES]
    secrets.append((files.manager / "secret" / "password").read_text().strip())
    secrets.append(files.api_token.read_text())
    users = (access.MASTER, access.ADMIN)
    secrets += [
        access.KubeAccess.read(access.kubeconfig_file(files.kubernetes, user)).token
        for user in users
    ]
    assert len(set(secrets)) == 12
    programs = plan.programs(files, demo_world(), "demo", ports)
    assert [program.name for program in programs[:4]] == [
        "topo-master",
        "cluster manager",
        "kubernetes",
        "topo-worker node-sample1",
    ]
    open_to_others = [
        path
        for path in (tmp_path / "secrets").rglob("*")
        if path.is_file() and path.suffix != ".pem" and path.stat().st_mode & 0o077
    ]
    assert open_to_others == [], "though the directory above them is private already"
    everything = " ".join(word for program in programs for word in program.argv)
    assert not any(secret in everything for secret in secrets)


def test_a_world_without_switchboxes_needs_no_manager(tmp_path: Path) -> None:
    files = plan.DemoFiles(tmp_path)
    small = world(0, 1, 4)
    ports = plan.DemoPorts(1, 2, 3)
    plan.prepare(files, small, ports)
    programs = plan.programs(files, small, "0x1x4", ports)
    assert not {"cluster manager", "kubernetes"} & {program.name for program in programs}
    assert "--kubernetes=off" in programs[0].argv
    assert "--mode=auto" in programs[0].argv
    assert "--node-number=4" in programs[0].argv
