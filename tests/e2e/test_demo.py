"""`topo demo` as its user meets it: real processes, killed and cut in every way."""

import html
import itertools
import json
import os
import re
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import pytest

from tests.e2e.conftest import NODES, RunningDemo, Witness, leaves
from tests.e2e.kills import kill_in_turn
from tests.support.processes import alive
from tests.support.waiting import CEILING_S
from tests.support.waiting import eventually_in_a_thread as eventually

pytestmark = pytest.mark.slow

WORKERS = tuple(f"topo-worker {node}" for node in sorted(NODES))
Start = Callable[..., RunningDemo]


def kill(demo: RunningDemo, *names: str) -> None:
    for name in names:
        os.kill(demo.pid(name), signal.SIGKILL)


def test_once_prints_the_tree_and_leaves_nothing(start: Start) -> None:
    demo = start("--once")
    assert demo.process.wait(CEILING_S) == 0, demo.text
    assert demo.text.count("● switchbox-sample") == 2
    assert demo.text.count("● dragonfly-") == 4
    assert demo.text.count("● node-sample") == 8
    assert not demo.directory.exists()


def test_the_document_is_the_vendors_and_true(demo: RunningDemo) -> None:
    document = demo.node_group()
    assert [root["name"] for root in document] == ["switchbox-sample1", "switchbox-sample2"]
    pairs = [list(leaves([fly])) for root in document for fly in root["child"]]
    assert sorted(pairs) == [[f"node-sample{n}", f"node-sample{n + 1}"] for n in (1, 3, 5, 7)]
    assert {key for root in document for key in root} == {"name", "kind", "child", "status"}


def test_a_cut_is_seen_and_so_is_its_end(demo: RunningDemo) -> None:
    """How soon it is seen is exact in tests/worker/test_agent.py; tests/chaos cuts many times."""
    assert demo.topo("demo", "cut", "node-sample3").returncode == 0
    eventually(lambda: _shows(demo, "✗ node-sample3  NotReady", "remote 1"))
    assert demo.topo("doctor").returncode == 1
    assert demo.topo("demo", "heal").stdout == "2 healed\n"
    eventually(demo.is_ready)
    eventually(lambda: "node-sample3  Ready → NotReady" in demo.text)
    eventually(lambda: demo.topo("doctor").returncode == 0)


PODS = ("superpod-0", "superpod-1")
WRONG_OF_A_SUPER_POD = {
    "super pod 7": {"wiring-differs-from-labels", "super-pod-incomplete"},
    "super pod size 48": {"super-pod-doubled"},
}


def test_a_demo_of_super_pods_places_jobs_and_tells_what_npu_smi_says_wrongly(start: Start) -> None:
    """As docs/ascend.md shows it."""
    demo = start("--world", "ascend-a3-2x4x16")
    eventually(lambda: "Ctrl-C ends everything" in demo.text)
    eventually(lambda: _super_pods(demo) == dict.fromkeys(PODS, 4))
    placed = demo.topo("place", "--pods", "4", "--gpus", "16", "--group-size", "64")
    assert (placed.returncode, placed.stdout.count("node-")) == (0, 4), placed.stderr
    for said, codes in WRONG_OF_A_SUPER_POD.items():
        assert demo.topo("demo", "fault", f"{said} of node-3 is stated").returncode == 0
        eventually(partial(_finds, demo, codes))
        demo.topo("demo", "heal")


def _super_pods(demo: RunningDemo) -> dict[str, int]:
    """The nodes of each super pod that is Ready."""
    return {
        each["name"]: len(each["child"])
        for each in demo.node_group() or ()
        if (each["kind"], each["status"]) == ("superpod", "Ready")
    }


def _finds(demo: RunningDemo, codes: set[str]) -> bool:
    return {each["code"] for each in _examined(demo)} == codes


def _shows(demo: RunningDemo, *texts: str) -> bool:
    shown = demo.topo("tree").stdout
    return all(text in shown for text in texts)


KINDS = ("master", "workers", "manager")


@pytest.mark.parametrize(
    "order",
    [
        KINDS,
        *(
            pytest.param(each, marks=pytest.mark.deep)
            for each in itertools.permutations(KINDS)
            if each != KINDS
        ),
    ],
)
def test_whatever_is_killed_in_whatever_order_the_tree_comes_back_and_never_lies(
    demo: RunningDemo, order: tuple[str, ...]
) -> None:
    """Each kind is killed while the one before it is still coming back."""
    victims = {
        "master": ("topo-master",),
        "workers": WORKERS,
        "manager": ("cluster manager",),
    }
    witness = Witness(demo)
    with witness.at_work():
        for kind in order:
            before = {name: demo.pid(name) for name in victims[kind]}
            kill(demo, *victims[kind])
            eventually(lambda: _are_replaced(demo, before))  # noqa: B023 - called at once
        eventually(lambda: demo.topo("doctor").returncode == 0)
        said = witness.answers
        eventually(lambda: witness.answers > said + 100)
    assert witness.wrong == []
    eventually(demo.is_ready)
    assert "was ended by SIGKILL; starting it again" in demo.text


def test_no_kill_of_a_process_makes_a_node_not_ready(demo: RunningDemo) -> None:
    """The master and others in turn; `python -m tests.e2e.kills` does it longer."""
    kills = list(kill_in_turn(demo, kills=4, seed=9))
    assert {kill.victim for kill in kills} >= {"topo-master"}
    assert not [kill for kill in kills if kill.not_ready]


def _are_replaced(demo: RunningDemo, before: dict[str, int]) -> bool:
    now = demo.told()["pids"]
    return all(now.get(name) not in {None, pid} for name, pid in before.items())


def test_everything_killed_at_once_comes_back(demo: RunningDemo) -> None:
    witness = Witness(demo)
    with witness.at_work():
        kill(demo, "topo-master", "cluster manager", "kubernetes", *WORKERS)
        eventually(lambda: not demo.is_ready())
        eventually(demo.is_ready)
    assert witness.wrong == []


def test_a_worker_that_ended_is_named_with_its_node_its_age_and_the_next_step(
    demo: RunningDemo,
) -> None:
    """It stands still first, for the demo starts one again that is killed; all tell the same."""
    node = "node-sample3"
    eventually(lambda: bool(_word_ago(demo, node)))  # one that was just started has said nothing
    pid = demo.pid(f"topo-worker {node}")
    what = "its worker is stale: no report within 3 beats (6 s)"
    step = f"is topo-worker running on {node}? its log says why it cannot report; "
    step += f"`topo node {node}` says since when"
    finding = {"severity": "wrong", "code": "worker-stale", "subject": node, "subjects": [node]}
    finding |= {"what": what, "next_step": step}
    words, advice = re.escape(what), re.escape(html.escape(step))
    line = rf"<li><b>{node}</b>: {words}, for \S+ s <small>{advice}</small></li>"
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: _without_ages(_examined(demo)) == [finding])
        eventually(lambda: _without_ages(_served(demo)) == [finding])
        eventually(lambda: re.search(line, demo.page("/plain") or "") is not None)
        eventually(lambda: _served(demo)[0]["since_s"] >= 3.0)
        eventually(lambda: _is_longer_ago(demo, node, 6))
    finally:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: _examined(demo) == [])


def _word_ago(demo: RunningDemo, node: str) -> list[tuple[str, str]]:
    """How long ago `topo node` says that the node's worker spoke, with its unit."""
    shown = demo.topo("node", node).stdout
    return re.findall(r"last message of its worker (\S+) (\w+) ago", shown)


def _is_longer_ago(demo: RunningDemo, node: str, seconds: float) -> bool:
    return any(unit != "s" or float(age) >= seconds for age, unit in _word_ago(demo, node))


def _served(demo: RunningDemo) -> Any:
    """What the master finds."""
    return (demo.document("/v1/findings") or {}).get("findings")


def _without_ages(findings: Any) -> Any:
    """The findings but for how long they are so."""
    return [{k: v for k, v in each.items() if k != "since_s"} for each in findings or ()]


def _examined(demo: RunningDemo) -> Any:
    """What `topo doctor` finds."""
    printed = demo.topo("doctor", "--output=json").stdout
    return json.loads(printed)["findings"] if printed else None


def test_a_cut_while_the_master_is_away_is_known_when_it_is_back(demo: RunningDemo) -> None:
    told = len(demo.text)
    kill(demo, "topo-master")
    demo.topo("demo", "cut", "node-sample5")
    eventually(lambda: "the master answers again" in demo.text[told:])
    eventually(lambda: _statuses(demo) == ["Ready", "NotReady"])
    demo.topo("demo", "heal")
    eventually(demo.is_ready)


def _statuses(demo: RunningDemo) -> list[str]:
    return [root["status"] for root in demo.node_group() or ()]


def test_taken_ports_are_named_and_others_are_used(start: Start) -> None:
    with ExitStack() as held:
        for port in (9001, 10001):
            with suppress(OSError):  # somebody else holds it: as good
                held.enter_context(socket.create_server(("127.0.0.1", port)))
        demo = start()
        eventually(lambda: "Ctrl-C ends everything" in demo.text)
        assert "port 9001 is taken, using" in demo.text
        assert "port 10001 is taken, using" in demo.text
        eventually(demo.is_ready)
        assert "switchbox-sample1" in demo.topo("tree").stdout


@pytest.mark.parametrize(
    "number",
    [
        *(signal.SIGINT, signal.SIGKILL),
        *(pytest.param(each, marks=pytest.mark.deep) for each in (signal.SIGTERM, signal.SIGHUP)),
    ],
)
def test_however_the_demo_ends_no_process_is_left(
    own_demo: RunningDemo, number: signal.Signals
) -> None:
    pids = set(own_demo.told()["pids"].values())
    assert len(pids) == 11
    own_demo.process.send_signal(number)
    code = own_demo.process.wait(CEILING_S)
    eventually(lambda: not any(map(alive, pids)))
    if number != signal.SIGKILL:
        assert code == 0
        assert not own_demo.directory.exists()


def test_the_leftovers_of_a_killed_demo_do_not_hinder_the_next(
    own_demo: RunningDemo, start: Start
) -> None:
    own_demo.process.kill()
    own_demo.process.wait()
    assert own_demo.topo("demo", "status").returncode == 1
    again = start("--once")
    assert again.process.wait(CEILING_S) == 0, again.text
    assert not own_demo.directory.exists()


def test_a_second_demo_is_refused_and_the_first_stays(demo: RunningDemo) -> None:
    refused = demo.topo("demo", "--once")
    assert refused.returncode == 2
    assert "a demo is already running" in refused.stderr
    eventually(demo.is_ready)


def test_the_secrets_of_the_demo_are_the_users_alone_and_in_no_log(demo: RunningDemo) -> None:
    secrets = demo.directory / "secrets"
    assert demo.directory.stat().st_mode & 0o077 == 0
    values = {
        line.split()[-1]
        for file in (*secrets.glob("*token"), secrets / "worker-tokens")
        for line in file.read_text().splitlines()
    }
    values.add((secrets / "manager" / "secret" / "password").read_text().strip())
    for kubeconfig in (secrets / "kubernetes").glob("*.kubeconfig"):
        values.add(json.loads(kubeconfig.read_text())["users"][0]["user"]["token"])
    assert len(values) == 12
    logged = "".join(log.read_text() for log in (demo.directory / "logs").iterdir()) + demo.text
    assert not [value for value in values if value in logged]
    for pid in demo.told()["pids"].values():
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as shown:  # noqa: PTH123
            arguments = shown.read()
        assert not [value for value in values if value in arguments]
