"""`topo place`: what it asks, what it draws, how it ends."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli import samples
from tests.cli.conftest import FakeMaster, Topo
from topo.cli.demo_directory import Demo, DemoDirectory
from topo.cli.exit_codes import Exit

NARROW = {"NO_COLOR": "1", "COLUMNS": "60"}
JOB = ("place", "--pods", "4", "--gpus", "4", "--group-size", "12")


def test_the_groups_are_drawn_inside_the_tree(topo: Topo) -> None:
    shown = topo(*JOB)
    assert shown.exit_code == Exit.OK
    lines = shown.stdout.splitlines()
    box = next(line for line in lines if line.startswith("switchbox-sample1"))
    assert "switchbox  ██████░░░░··  takes 16 of 28 free, 32 in all" in box
    assert any("dragonfly-4e5f6a7b  dragonfly" in line for line in lines)
    assert any(line.endswith("■0 node-2  2 pods") for line in lines)
    assert any(line.endswith("▲1 node-3  tail") for line in lines)
    assert shown.stderr == ""


def test_the_proof_is_one_line_and_the_table_behind_it_comes_when_asked_for(
    topo: Topo, fake_master: FakeMaster
) -> None:
    plain = topo(*JOB).stdout
    assert "▲ proven best in 3 of 8; `--explain` has the bounds of the others" in plain
    assert "best possible" not in plain
    names = fake_master.placement["objective"]
    fake_master.placement = {**fake_master.placement, "certified": dict.fromkeys(names, True)}
    assert "✓ proven best in 8 of 8" in topo(*JOB).stdout.splitlines()


def test_the_objective_stands_beside_its_proof(topo: Topo) -> None:
    lines = [" ".join(line.split()) for line in topo(*JOB, "--explain").stdout.splitlines()]
    assert "groups used, top tier 1 1 ✓ best possible" in lines
    assert "whole groups left 3 4 at most 1 from the best" in lines
    assert "free slots, largest first -1x3 -1x2 +1x1 not proven" in lines


def test_the_sentences_come_when_asked_for(topo: Topo) -> None:
    sentence = samples.placement()["explanation"][0]
    assert sentence not in topo(*JOB).stdout
    assert sentence in topo(*JOB, "--explain").stdout


def test_a_long_sentence_goes_on_below_its_first_word(topo: Topo, fake_master: FakeMaster) -> None:
    words = "a sentence about groups that is far longer than the terminal is wide " * 3
    for document in (samples.placement(), samples.refusal()):
        fake_master.placement = {**document, "explanation": [words]}
        shown = topo(*JOB, "--explain", env=NARROW | {"TOPO_MASTER": fake_master.url})
        lines = shown.stdout.splitlines()
        first = lines.index("why") + 1
        assert lines[first].startswith("  → a sentence")
        assert len(lines[first + 1 :]) >= 3
        assert all(re.match(r"    \S", line) for line in lines[first + 1 :])
        assert all(len(line) <= 60 for line in lines[first:])
        assert " ".join(" ".join(lines[first:]).split()) == f"→ {words}".strip()


def test_only_what_was_given_travels(topo: Topo, fake_master: FakeMaster) -> None:
    topo("place", "--pods", "4", "--gpus", "8")
    assert fake_master.bodies == [{"pods": 4, "gpus_per_pod": 8, "mode": "required"}]


def test_every_option_has_its_field(topo: Topo, fake_master: FakeMaster) -> None:
    words = (
        "--mode preferred --within switchbox --gpu-type MXC500 --selector a=b --selector c=d=e "
        "--toleration k=v:NoSchedule --toleration k2 --exclude node-7 --exclude node-8 "
        "--usage training --hold 10m --key job-42 --namespace team-a --assume-free node-1 "
        "--assume-down node-2 --assume-drain node-3"
    )
    topo(*JOB, *words.split())
    assert fake_master.bodies == [
        {
            "pods": 4,
            "gpus_per_pod": 4,
            "group_size": 12,
            "mode": "preferred",
            "within": "switchbox",
            "gpu_type": "MXC500",
            "selector": {"a": "b", "c": "d=e"},
            "tolerations": [
                {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"},
                {"key": "k2", "operator": "Exists"},
            ],
            "exclude": ["node-7", "node-8"],
            "usage": "training",
            "hold_s": 600.0,
            "key": "job-42",
            "namespace": "team-a",
            "assume": {"free": ["node-1"], "down": ["node-2"], "drain": ["node-3"]},
        }
    ]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--selector", "a"], "write KEY=VALUE"),
        (["--selector", "a=1", "--selector", "a=2"], "given twice"),
        (["--hold", "soon"], "write a number and a unit"),
        (["--mode", "maybe"], "'maybe' is not one of"),
    ],
)
def test_what_cannot_be_a_request_is_bad_usage(
    topo: Topo, fake_master: FakeMaster, more: list[str], words: str
) -> None:
    shown = topo(*JOB, *more)
    assert shown.exit_code == Exit.USAGE
    assert words in shown.stderr
    assert fake_master.bodies == []


def test_what_the_master_calls_malformed_is_bad_usage_and_names_the_option(
    topo: Topo, fake_master: FakeMaster
) -> None:
    problem = {
        "detail": "a group of 60 GPUs is not a whole number of pods of 8 GPUs",
        "field": "group_size",
        "fix": "give a multiple of gpus_per_pod, such as 56 or 64",
    }
    fake_master.broken["/v1/placements"] = (400, json.dumps(problem), {})
    shown = topo(*JOB)
    assert shown.exit_code == Exit.USAGE
    assert shown.stderr.splitlines() == [
        "topo: a group of 60 GPUs is not a whole number of pods of 8 GPUs",
        "  at --group-size",
        "  next: give a multiple of --gpus, such as 56 or 64",
    ]


@pytest.mark.parametrize(
    ("problem", "lines"),
    [
        (("pods is 0", "pods", "give 1 to 9"), ("--pods is 0", "--pods", "give 1 to 9")),
        (("no fit", "pods", "pods is a number"), ("no fit", "--pods", "--pods is a number")),
        (
            ("hold_s is 9000000", "hold_s", "give seconds, at most 86400"),
            ("--hold is 9000000", "--hold", "give seconds, at most 86400"),
        ),
        (("there is no node 'x'", "exclude", "y?"), ("there is no node 'x'", "--exclude", "y?")),
        (
            ("long", "assume.down.3", "down is nodes"),
            ("long", "--assume-down", "--assume-down is nodes"),
        ),
        (("long", "tolerations.0.key", "shorter"), ("long", "--toleration", "shorter")),
        (
            ("the key came before with gpus_per_pod 4, now 8", "key", "give another key"),
            ("the key came before with --gpus 4, now 8", "--key", "give another key"),
        ),
        (
            ("what is only assumed", "hold_s", "leave out assume or hold_s"),
            ("what is only assumed", "--hold", "leave out --assume-… or --hold"),
        ),
        (("no token", "Authorization", "f"), ("no token", "Authorization", "f")),
        (
            ("there is no node 'x'", "node", "GET /v1/topology lists what there is"),
            ("there is no node 'x'", "NODE", "`topo tree` lists what there is"),
        ),
        (
            ("there is no hold 'x'", "id", "GET /v1/holds lists those there are"),
            ("there is no hold 'x'", "ID", "`topo holds` lists those there are"),
        ),
        (
            ("hold x expired", "id", "ask for a new one: POST /v1/holds"),
            ("hold x expired", "ID", "ask for a new one: `topo place --hold`"),
        ),
    ],
)
def test_a_refusal_names_options_and_no_fields(
    topo: Topo, fake_master: FakeMaster, problem: tuple[str, ...], lines: tuple[str, ...]
) -> None:
    body = json.dumps(dict(zip(("detail", "field", "fix"), problem, strict=True)))
    fake_master.broken["/v1/placements"] = (400, body, {})
    words = ("topo: ", "  at ", "  next: ")
    told = [word + line for word, line in zip(words, lines, strict=True)]
    assert topo(*JOB).stderr.splitlines() == told


def test_a_query_that_is_refused_names_the_option_too(topo: Topo, fake_master: FakeMaster) -> None:
    problem = {"detail": "there is no group 'x'", "field": "group", "fix": "did you mean y?"}
    fake_master.broken["/v1/topology"] = (404, json.dumps(problem), {})
    assert "  at --group" in topo("tree", "--group", "x").stderr.splitlines()


def test_a_refusal_is_an_answer_with_a_code_of_its_own(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.placement = samples.refusal()
    shown = topo(*JOB)
    assert shown.exit_code == Exit.NO_FIT
    assert "failed: groups · needed 2 · available 1 · missing 1" in shown.stdout
    assert "→ mode preferred fits, with 1 group split" in shown.stdout
    assert "dragonfly-4e5f6a7b has 2 free slots, a group needs 3" in shown.stdout


def test_a_job_that_fits_in_no_state_of_the_nodes_is_told_never(
    topo: Topo, fake_master: FakeMaster
) -> None:
    fake_master.placement = samples.refusal()
    assert "no placement now" in topo(*JOB).stdout
    fake_master.placement = {**samples.refusal(), "never": True, "largest_pods": 4}
    shown = topo(*JOB)
    assert shown.exit_code == Exit.NO_FIT
    assert "never fits on these nodes" in shown.stdout
    assert "no placement now" not in shown.stdout


@pytest.mark.parametrize("document", [samples.placement(), samples.refusal()])
def test_json_and_yaml_are_the_masters_document(
    topo: Topo, fake_master: FakeMaster, document: Any
) -> None:
    fake_master.placement = {**document, "from_the_future": 1}
    code = Exit.OK if document["feasible"] else Exit.NO_FIT
    for read, output in ((json.loads, "json"), (yaml.safe_load, "yaml")):
        shown = topo(*JOB, "-o", output)
        assert shown.exit_code == code
        assert read(shown.stdout) == fake_master.placement


def test_nodes_are_a_name_per_pod_in_rank_order(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.placement["hold"] = samples.held()
    shown = topo(*JOB, "-o", "nodes")
    assert shown.stdout.splitlines() == ["node-1", "node-2", "node-2", "node-3"]
    assert "topo holds commit h-1" in shown.stderr


def test_a_refusal_leaves_a_hostfile_empty(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.placement = samples.refusal()
    shown = topo(*JOB, "-o", "nodes")
    assert (shown.exit_code, shown.stdout) == (Exit.NO_FIT, "")
    assert "missing 1" in shown.stderr


def test_without_a_hold_no_token_travels_and_with_one_the_demos_does(
    topo: Topo, fake_master: FakeMaster
) -> None:
    with DemoDirectory() as home:
        token = home.path / "token"
        token.write_text("s3cret")
        home.publish(Demo(fake_master.url, "", (), "demo", {}, str(token)))
        topo(*JOB, env={})
        asked = [request for request in fake_master.asked if request.method == "POST"]
        assert "Authorization" not in asked[0].headers
        topo(*JOB, "--hold", "10m", env={})
        asked = [request for request in fake_master.asked if request.method == "POST"]
        assert asked[1].headers["Authorization"] == "Bearer s3cret"


def test_a_token_of_the_users_goes_before_the_demos(
    topo: Topo, fake_master: FakeMaster, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    with DemoDirectory() as home:
        home.publish(Demo(fake_master.url, "", (), "demo", {}, "/nowhere"))
        shown = topo(*JOB, "--hold", "1m", "--token-file", str(mine), env={})
    assert shown.exit_code == Exit.OK
    posted = next(request for request in fake_master.asked if request.method == "POST")
    assert posted.headers["Authorization"] == "Bearer mine"


def test_a_hold_without_a_token_is_refused_with_the_next_step(
    topo: Topo, fake_master: FakeMaster
) -> None:
    problem = {"detail": "no token", "field": "Authorization", "fix": "send a header"}
    fake_master.broken["/v1/placements"] = (401, json.dumps(problem), {})
    shown = topo(*JOB, "--hold", "10m")
    assert shown.exit_code == Exit.REFUSED
    assert "next: give a valid token with --token-file" in shown.stderr


def test_a_plan_is_drawn_without_a_tree_too(topo: Topo, fake_master: FakeMaster) -> None:
    """The tree may have changed, or not be had: the plan's own paths are enough."""
    fake_master.broken["/v1/topology"] = (404, "{}", {})
    del fake_master.placement["capacity"]
    shown = topo(*JOB)
    assert shown.exit_code == Exit.OK
    assert "└── dragonfly-4e5f6a7b  dragonfly" in shown.stdout
    assert "▲1 node-3" in shown.stdout


def test_only_the_roots_that_are_used_are_asked_for(topo: Topo, fake_master: FakeMaster) -> None:
    topo(*JOB)
    asked = [request for request in fake_master.asked if request.path == "/v1/topology"]
    assert [dict(request.query) for request in asked] == [{"group": "switchbox-sample1"}]


def test_a_node_in_no_group_stands_alone(topo: Topo, fake_master: FakeMaster) -> None:
    lonely = samples.planned(0, ["node-9"], ("node-9", 1), kind="node")
    fake_master.placement = {"feasible": True, "groups": [lonely]}
    shown = topo("place", "--pods", "1", "--gpus", "8")
    assert "■0 node-9" in shown.stdout.splitlines()


def test_many_nodes_share_a_line(topo: Topo, fake_master: FakeMaster) -> None:
    names = [(f"node-{n}", 1) for n in range(100)]
    fake_master.placement = {"feasible": True, "groups": [samples.planned(0, ["box"], *names)]}
    fake_master.broken["/v1/topology"] = (404, "{}", {})
    shown = topo(*JOB)
    assert "└── ■0 node-0 … node-99  100 nodes, 100 pods" in shown.stdout.splitlines()


def test_the_picture_has_the_order_of_the_tree(topo: Topo, fake_master: FakeMaster) -> None:
    """Whatever the rank order: people compare it with `topo tree`."""
    fake_master.placement["groups"] = [
        samples.planned(0, samples.UPPER, ("node-4", 1), ("node-3", 1)),
        samples.planned(1, samples.LOWER, ("node-1", 1)),
    ]
    drawn = topo(*JOB).stdout
    names = ["dragonfly-0a1b2c3d", "node-1", "dragonfly-4e5f6a7b", "node-3", "node-4"]
    places = [drawn.index(name) for name in names]
    assert places == sorted(places)


def test_a_split_group_is_told_and_drawn_in_both_its_places(
    topo: Topo, fake_master: FakeMaster
) -> None:
    split = samples.planned(0, samples.LOWER, ("node-2", 1), ("node-3", 1))
    split["domains"].append(samples.planned(0, samples.UPPER)["domains"][0])
    fake_master.placement["groups"] = [split]
    lines = topo(*JOB, "--mode", "preferred").stdout.splitlines()
    assert "1 group, 1 split" in lines[0]
    assert [line.split("■0 ")[1] for line in lines if "■0" in line] == ["node-2", "node-3"]
    fake_master.broken["/v1/topology"] = (404, "{}", {})
    assert "■0 node-3" in topo(*JOB).stdout.splitlines()


def test_a_node_with_pods_of_two_groups_carries_both_marks(
    topo: Topo, fake_master: FakeMaster
) -> None:
    fake_master.placement["groups"] = [
        samples.planned(0, samples.LOWER, ("node-1", 1)),
        samples.planned(1, samples.LOWER, ("node-1", 2)),
    ]
    drawn = topo(*JOB).stdout
    assert "■0 1 pod ▲1 2 pods node-1  3 pods" in drawn
    assert "1 other group, untouched" in drawn


def test_room_is_told_in_numbers_where_the_tree_is_not_had(
    topo: Topo, fake_master: FakeMaster
) -> None:
    fake_master.broken["/v1/topology"] = (404, "{}", {})
    assert "dragonfly  takes 12 of 16 free GPUs" in topo(*JOB).stdout
