"""`topo gangs` and `topo why`: where jobs stand whose pods go together, and why."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli import gang_samples
from tests.cli.conftest import FakeMaster, Topo
from topo.cli.exit_codes import Exit
from topo.cli.render.safe import is_safe


def test_every_gang_is_a_row_and_one_that_waits_says_why(
    topo: Topo, fake_master: FakeMaster
) -> None:
    fake_master.gangs = [gang_samples.waiting_gang(), gang_samples.gang(state="bound", bound=4)]
    head, first, second, *_ = (" ".join(line.split()) for line in topo("gangs").stdout.splitlines())
    assert head == "gang state job bound age why"
    assert first.startswith("training/pytorch-demo ✗ no-room 4 pods of 8 GPUs in groups of 16")
    assert first.endswith("0 of 4 72 s 1 group of 16 GPUs is missing")
    assert second.endswith("4 of 4 72 s"), "who runs needs no words"


def test_a_running_job_says_what_it_lost_and_since_when(
    topo: Topo, fake_master: FakeMaster
) -> None:
    """It is bound as before, and so its state says nothing of it."""
    lost = {
        "node": "node-3",
        "group": 1,
        "code": "link-down",
        "text": "the link to node-4 is down",
        "since_s": 130.0,
    }
    fake_master.gangs = [gang_samples.gang(state="bound", bound=4, losses=[lost])]
    shown = topo("why", "pytorch-demo").stdout
    assert "✗ group 1 lost node-3: the link to node-4 is down · for 2 min" in shown
    assert "mend it (`topo doctor`), or restart the job" in shown
    assert "1 of its nodes is NotReady: node-3" in topo("gangs").stdout


def test_what_is_kept_for_pods_to_come_is_listed_by_namespace_with_its_limit(
    topo: Topo, fake_master: FakeMaster
) -> None:
    keepers = [
        {"kind": "gang", "name": "late", "gpus": 8},
        {"kind": "request", "name": "r", "gpus": 4},
    ]
    row = {
        "namespace": "training",
        "gpu_type": "C500",
        "gpus": 12,
        "counted": 12,
        "limit": 16,
        "source": "--ahead-share 0.25 of 64 GPUs",
        "for_s": 72.0,
        "keepers": keepers,
    }
    fake_master.ahead = [row, {**row, "namespace": "free", "gpu_type": "", "limit": None}]
    lines = [" ".join(line.split()) for line in topo("gangs").stdout.splitlines()]
    at = next(n for n, line in enumerate(lines) if line.startswith("namespace kept ahead"))
    assert lines[at + 1] == (
        "training 12 C500 GPUs 16 (--ahead-share 0.25 of 64 GPUs) 72 s late 8 and r 4"
    )
    assert lines[at + 2].startswith("free 12 GPUs any (")
    fake_master.gangs = []
    assert "training 12 C500 GPUs" in " ".join(topo("gangs").stdout.split())


def test_no_gangs_are_said_to_be_none(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.gangs = []
    assert topo("gangs").stdout == "no job asks for groups\n"


def test_gangs_of_one_namespace_are_asked_for(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.gangs.append(gang_samples.gang(namespace="other", name="elsewhere"))
    assert "elsewhere" not in topo("gangs", "-n", "training").stdout


@pytest.mark.parametrize("name", ["pytorch-demo", "training/pytorch-demo", "pytorch-demo-worker-2"])
def test_why_shows_a_job_by_its_name_or_by_that_of_a_pod(topo: Topo, name: str) -> None:
    shown = topo("why", name).stdout
    assert "training/pytorch-demo  ▲ opened" in shown
    assert "its scheduler may bind it" in shown
    assert "■0 node-1" in shown or "0 node-1" in shown
    assert "1 pod not bound to their nodes yet: pytorch-demo-worker-3" in shown
    assert json.loads(topo("why", name, "-o", "json").stdout) == gang_samples.gang()


def test_why_of_a_job_on_hybrid_nodes_says_when_it_gets_such(
    topo: Topo, fake_master: FakeMaster
) -> None:
    fake_master.gangs = [gang_samples.gang(usage="training", hybrid=["node-3", "node-4"])]
    told = " ".join(topo("why", "pytorch-demo").stdout.split())
    assert "of the hybrid pool: node-3 and node-4; jobs for training get such nodes only" in told


def test_the_history_of_a_gang_is_a_row_per_change_and_says_what_is_not_known(topo: Topo) -> None:
    shown = " ".join(topo("why", "pytorch-demo", "--history").stdout.split())
    first, second = "14:02:11.000Z ✗ no-room 1 group of 16", "14:09:40.125Z ▲ opened its scheduler"
    assert shown.index(first) < shown.index(second)
    assert "not known: this master leads since 2026-11-22T14:05:00.000Z." in shown
    assert "first row is from the condition of its first pod" in shown
    assert "node-1" not in shown, "where its pods are is another question"


def test_a_master_of_an_earlier_release_has_no_history(topo: Topo, fake_master: FakeMaster) -> None:
    known = gang_samples.gang()
    fake_master.gangs = [{key: known[key] for key in known if not key.startswith("history")}]
    assert "keeps no history" in topo("why", "pytorch-demo", "--history").stdout


def test_why_of_one_that_waits_says_what_would_let_it_in(
    topo: Topo, fake_master: FakeMaster
) -> None:
    fake_master.gangs = [{**gang_samples.waiting_gang(), "members": [], "groups": [], "ahead": 2}]
    shown = topo("why", "pytorch-demo").stdout
    assert "1 group of 16 GPUs is missing" in shown
    assert "2 gangs before it in line" in shown
    assert "what would let it in: node node-2 uncordoned" in shown


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pytorch-dmeo", "did you mean"),
        ("other/pytorch-demo", "did you mean"),
        ("x", "`topo gangs` lists them"),
        ("made-without-the-webhook", "delete it and create it again"),
    ],
)
def test_a_name_that_nobody_has_is_refused_with_the_next_step(
    topo: Topo, name: str, words: str
) -> None:
    shown = topo("why", name)
    assert shown.exit_code == Exit.REFUSED
    assert words in " ".join(shown.stderr.split())


def test_two_gangs_of_one_name_are_both_named(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.gangs.append(gang_samples.gang(namespace="other", id="2"))
    shown = topo("why", "pytorch-demo")
    assert shown.exit_code == Exit.REFUSED
    assert "other/pytorch-demo" in shown.stderr
    assert "training/pytorch-demo" in shown.stderr


def test_the_gates_of_a_job_are_opened_by_its_name(topo: Topo, fake_master: FakeMaster) -> None:
    assert topo("gates", "open", "pytorch-demo").stdout == (
        "the gates of training/pytorch-demo are opened\n"
    )
    assert fake_master.asked[-1].path.endswith("/open")


def test_where_nobody_may_open_gates_what_the_master_lacks_is_told(
    topo: Topo, fake_master: FakeMaster
) -> None:
    found = gang_samples.gang()
    fix = "give it --api-token-file"
    body = json.dumps({"status": 403, "detail": "nothing may be written here", "fix": fix})
    kind = {"Content-Type": "application/problem+json"}
    fake_master.broken[f"/v1/gangs/{found['id']}/open"] = (403, body, kind)
    shown = topo("gates", "open", found["name"])
    assert shown.exit_code == Exit.REFUSED
    assert fix in shown.stderr


def test_all_gates_are_opened_but_of_gangs_that_run(topo: Topo, fake_master: FakeMaster) -> None:
    bound = gang_samples.gang(id="2", name="done", bound=4)
    fake_master.gangs = [{**gang_samples.waiting_gang(), "name": "waits"}, bound]
    assert topo("gates", "open", "--all").stdout == "the gates of training/waits are opened\n"
    fake_master.gangs = [bound]
    assert topo("gates", "open", "--all").stdout == "no pod waits behind a gate\n"


@pytest.mark.parametrize("words", [(), ("pytorch-demo", "--all")])
def test_gates_are_opened_of_one_job_or_of_all(topo: Topo, words: tuple[str, ...]) -> None:
    shown = topo("gates", "open", *words)
    assert shown.exit_code == Exit.USAGE
    assert "name a job, or give --all" in shown.stderr


EVIL = "<b>\x1b[2J\x9b31m\u202egnp\u2066\u200b\u2028\r\x07" + "n" * 253


def texts(document: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """The paths to all texts in a document; `*` stands for every element of a list."""
    if isinstance(document, str):
        yield path
    elif isinstance(document, dict):
        for key, inside in document.items():
            yield from texts(inside, *path, key)
    elif isinstance(document, list):
        for inside in document:
            yield from texts(inside, *path, "*")


def with_evil(document: Any, path: tuple[str, ...]) -> Any:
    """The document with what nobody should write in the place of its texts at this path."""
    if not path:
        return EVIL
    if path[0] == "*":
        return [with_evil(inside, path[1:]) for inside in document]
    return {**document, path[0]: with_evil(document[path[0]], path[1:])}


def test_whatever_stands_in_a_gang_a_terminal_shows_and_does_not_obey(
    topo: Topo, fake_master: FakeMaster
) -> None:
    """Each of its texts in turn: annotations and reasons are checked by nobody at their source."""
    waiting = gang_samples.gang(state="no-room", text="none is free", would_fit="1 pod", ahead=2)
    shown_as_text = 0
    for path in dict.fromkeys(texts(waiting)):
        fake_master.gangs = [with_evil(waiting, path)]
        for words in (("gangs",), ("why", "pytorch-demo")):
            shown = topo(*words)
            assert is_safe(shown.stdout), (path, words)
            assert is_safe(shown.stderr), (path, words)
            shown_as_text += "gnp" in shown.stdout
    assert shown_as_text > 5


@pytest.mark.parametrize(
    "command",
    ["gangs", "gangs -o json", "why x", "why x -o json", "gates open x", "gates open --all"],
)
def test_where_no_gangs_are_placed_every_command_is_refused_with_the_next_step(
    topo: Topo, fake_master: FakeMaster, command: str
) -> None:
    """The list itself is no error: it is empty, and says why."""
    off = {"detail": "this master places no gangs", "fix": "switch it on with --controllers"}
    answer = json.dumps({"gangs": [], "off": off})
    fake_master.broken["/v1/gangs"] = (200, answer, {"Content-Type": "application/json"})
    shown = topo(*command.split())
    assert (shown.exit_code, shown.stdout) == (Exit.REFUSED, "")
    words = " ".join(shown.stderr.split())
    assert off["detail"] in words
    assert off["fix"] in words
