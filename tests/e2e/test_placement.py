"""`topo place`, `topo holds` and `topo fragmentation` beside a running demo."""

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import NODES, TOPO, TRUTH, RunningDemo
from tests.support.waiting import CEILING_S
from tests.support.waiting import eventually_in_a_thread as eventually
from topo.cli.exit_codes import Exit

pytestmark = pytest.mark.slow

PAIRS = ("--pods", "4", "--gpus", "8", "--group-size", "16")


@pytest.fixture
def demo(demo: RunningDemo) -> Iterator[RunningDemo]:
    """One demo for all tests here; each leaves it without holds."""
    yield demo
    for hold in holds(demo):
        demo.topo("holds", "release", hold["id"])


def answer(demo: RunningDemo, *arguments: str) -> Any:
    return json.loads(demo.topo("place", *arguments, "-o", "json").stdout)


def holds(demo: RunningDemo) -> list[Any]:
    told: list[Any] = json.loads(demo.topo("holds", "-o", "json").stdout)["holds"]
    return told


def used(document: Any) -> list[str]:
    return [node["name"] for group in document["groups"] for node in group["nodes"]]


def test_every_group_is_truly_one_dragonfly_and_all_are_in_one_switchbox(
    demo: RunningDemo,
) -> None:
    document = answer(demo, *PAIRS)
    assert len(document["groups"]) == 2
    for group in document["groups"]:
        nodes = [node["name"] for node in group["nodes"]]
        assert len(nodes) == 2
        assert len({TRUTH[name] for name in nodes}) == 1
        assert [domain["kind"] for domain in group["domains"]] == ["dragonfly"]
    assert len({TRUTH[name][0] for name in used(document)}) == 1
    assert document["certified"]["top_groups"] is True


def test_the_picture_has_every_node_with_its_mark_and_the_sentences(demo: RunningDemo) -> None:
    shown = demo.topo("place", *PAIRS, "--explain")
    assert shown.returncode == Exit.OK, shown.stderr
    for name in used(answer(demo, *PAIRS)):
        assert f"0 {name}" in shown.stdout or f"1 {name}" in shown.stdout
    assert "✓ best possible" in shown.stdout
    assert "why" in shown.stdout
    assert "░" in shown.stdout


def test_the_hostfile_is_the_plan_in_rank_order(demo: RunningDemo) -> None:
    shown = demo.topo("place", *PAIRS, "-o", "nodes")
    assert shown.stdout.splitlines() == used(answer(demo, *PAIRS))


def test_what_is_held_is_not_given_twice_until_it_is_released(demo: RunningDemo) -> None:
    first = demo.topo("place", *PAIRS, "--hold", "10m", "-o", "json")
    assert first.returncode == Exit.OK, first.stderr
    second = demo.topo("place", *PAIRS, "--hold", "10m", "-o", "json")
    taken = used(json.loads(first.stdout)) + used(json.loads(second.stdout))
    assert sorted(taken) == sorted(NODES)
    refused = demo.topo("place", *PAIRS)
    assert refused.returncode == Exit.NO_FIT
    assert "failed: " in refused.stdout
    one = json.loads(first.stdout)["hold"]["id"]
    assert demo.topo("holds", "commit", one).returncode == Exit.OK
    states = {hold["id"]: hold["state"] for hold in holds(demo)}
    assert states[one] == "committed"
    assert sorted(states.values()) == ["committed", "held"]
    assert one in demo.topo("holds").stdout
    assert used(json.loads(first.stdout))[0] in demo.topo("holds", "show", one).stdout
    assert demo.topo("holds", "release", one).returncode == Exit.OK
    assert demo.topo("place", *PAIRS).returncode == Exit.OK
    assert demo.topo("holds", "commit", one).returncode == Exit.REFUSED


def test_the_same_key_is_the_same_hold(demo: RunningDemo) -> None:
    asked = ("place", *PAIRS, "--hold", "10m", "--key", "job-42", "-o", "json")
    ids = {json.loads(demo.topo(*asked).stdout)["hold"]["id"] for _ in range(2)}
    assert len(ids) == len(holds(demo)) == 1


def test_a_hold_outlives_the_master(demo: RunningDemo) -> None:
    asked = ("place", *PAIRS, "--hold", "10m", "-o", "json")
    held = json.loads(demo.topo(*asked).stdout)
    state = demo.directory / "state" / "state.json"
    eventually(lambda: held["hold"]["id"] in state.read_text())
    pid = demo.pid("topo-master")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: demo.told()["pids"].get("topo-master", pid) != pid)
    eventually(demo.is_ready)
    assert [hold["id"] for hold in holds(demo)] == [held["hold"]["id"]]
    assert not set(used(held)) & set(used(answer(demo, *PAIRS)))


def test_a_node_that_is_not_ready_gets_no_pods_and_what_if_tells_what_its_repair_would_bring(
    demo: RunningDemo,
) -> None:
    demo.topo("demo", "fault", "gpu 2 of node-sample1 fails")
    eventually(lambda: not demo.is_ready())
    all_of_it = ("--pods", "8", "--gpus", "8", "--group-size", "16")
    eventually(lambda: demo.topo("place", *all_of_it).returncode == Exit.NO_FIT)
    assert answer(demo, *all_of_it)["shortfall"]["missing"] >= 1
    # Eventually: all nodes are needed, and on a busy machine another may be silent for a moment.
    eventually(lambda: "node-sample1" in str(answer(demo, *all_of_it)["would_fit"]))
    eventually(lambda: answer(demo, *all_of_it, "--assume-free", "node-sample1")["feasible"])
    assert answer(demo, *all_of_it)["feasible"] is False


def test_bad_requests_are_usage_errors_with_the_option_and_the_next_step(
    demo: RunningDemo,
) -> None:
    for more, option in (
        (("--pods", "0", "--gpus", "8"), "--pods"),
        (("--pods", "2", "--gpus", "8", "--group-size", "12"), "--group-size"),
        (("--pods", "1", "--gpus", "8", "--assume-down", "node-sampel1"), "--assume-down"),
    ):
        shown = demo.topo("place", *more)
        assert shown.returncode == Exit.USAGE, shown.stderr
        assert f"at {option}" in shown.stderr
        assert "next: " in shown.stderr


def test_the_fragmentation_counts_what_is_free(demo: RunningDemo) -> None:
    before = json.loads(demo.topo("fragmentation", "-o", "json").stdout)["types"][0]
    assert before["free_gpus"] == before["gpus"] == 8 * len(NODES)
    demo.topo("place", "--pods", "1", "--gpus", "8", "--hold", "10m")
    after = json.loads(demo.topo("fragmentation", "-o", "json").stdout)["types"][0]
    assert after["free_gpus"] == before["free_gpus"] - 8
    assert after["whole_groups"] == before["whole_groups"] - 1
    shown = demo.topo("fragmentation")
    assert "56 of 64 GPUs" in shown.stdout


PAGES = ("README.md", "docs/cli.md", "docs/placement.md")
ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Shown:
    """A command of a page as it stands there, and the output that the page shows, if any."""

    first: str
    output: str

    @property
    def arguments(self) -> list[str]:
        command = re.sub(r"\s+#.*", "", self.first).removeprefix(".venv/bin/")
        return shlex.split(command)[1:]


def shown_commands(text: str) -> Iterator[Shown]:
    """Every `topo place|holds|fragmentation` in the console blocks of a page, in order."""
    for block in BLOCK.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            first, _, output = part.partition("\n")
            if re.match(r"(\.venv/bin/)?topo (place|holds|fragmentation)\b", first):
                yield Shown(first, output)


def without_numbers_that_move(text: str) -> str:
    """The generation counts what happened before."""
    text = re.sub(r"generation \d+", "generation 7", text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_do_what_the_page_shows(demo: RunningDemo, page: str) -> None:
    """After a change on purpose: `TOPO_GOLDEN=write`, then read the difference."""
    text = (ROOT / page).read_text(encoding="utf-8")
    commands = list(shown_commands(text))
    assert commands
    for shown in commands:
        done = demo.topo(*shown.arguments)
        told = without_numbers_that_move(done.stdout)
        wanted = Exit.NO_FIT if "no placement now" in told else Exit.OK
        assert done.returncode == wanted, (shown, done.stderr)
        if shown.output and os.environ.get("TOPO_GOLDEN") == "write":
            text = text.replace(f"{shown.first}\n{shown.output}", f"{shown.first}\n{told}")
            (ROOT / page).write_text(text, encoding="utf-8")
        elif shown.output:
            assert told == shown.output, shown


def test_the_pictures_of_streams_are_made_as_the_page_says(tmp_path: Path) -> None:
    """With a few jobs here: the command takes half a minute as it stands."""
    text = (ROOT / "docs" / "placement.md").read_text(encoding="utf-8")
    commands = [line for line in text.splitlines() if line.startswith("topo sim stream")]
    assert commands
    for command in commands:
        quick = [*shlex.split(command), "--jobs", "20", "--seeds", "1", "--policy", "topo"]
        done = subprocess.run(
            [TOPO, *quick[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=CEILING_S,
        )
        assert done.returncode == Exit.OK, done.stderr
        assert (tmp_path / "streams.svg").read_text(encoding="utf-8").startswith("<svg")
