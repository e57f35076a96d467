"""Each violation that the model can report is provoked once on a doctored answer."""

import ast
import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import model
from tests.chaos.model import service
from tests.chaos.model.generations import EventJudge, GenerationJudge
from tests.chaos.model.ledger import Ledger, Promise
from tests.chaos.model.trees import TreeJudge, tree_of
from tests.chaos.model.truth import NOT_READY, READY, SILENT, Truth, Wiring
from tests.chaos.model.verdicts import Bounds, Kind, Violation

BOUNDS = Bounds(stale_s=6.0)
LATE_S = 1000.0
"""Long after whatever a test does at 0 s."""
SILENCE = f"{SILENT}: somebody"
WIRING = Wiring(switchboxes=2, dragonflies=2)
"""As the demo: two switchboxes of two dragonflies of two nodes."""


def truth(*broken: str) -> Truth:
    """The master runs since 0 s, and so long those nodes are broken."""
    made = Truth(WIRING, BOUNDS, 0.0)
    made.begin("GPU", broken, 0.0)
    made.master_back(0.0)
    made.master_answered(0.0)
    return made


def document(*broken: str) -> Any:
    """What a right master answers."""

    def status(*nodes: str) -> str:
        return "NotReady" if set(nodes) & set(broken) else "Ready"

    boxes: dict[str, Any] = {}
    for first in WIRING.nodes[::2]:
        pair = (first, WIRING.partner(first))
        child = [{"name": name, "kind": "node", "status": status(name)} for name in pair]
        fly = {"name": f"dragonfly-{first}", "kind": "dragonfly", "child": child}
        boxes.setdefault(WIRING.switchbox(first), []).append({**fly, "status": status(*pair)})
    return [
        {"name": name, "kind": "switchbox", "child": flies, "status": _worst(flies)}
        for name, flies in boxes.items()
    ]


def _worst(vertices: Any) -> str:
    return READY if all(vertex["status"] == READY for vertex in vertices) else NOT_READY


def doctored(change: Callable[[Any], object], *broken: str) -> Any:
    """A right answer after a change of its two first dragonflies."""
    answer = document(*broken)
    change(answer[0]["child"])
    return answer


def kinds(found: Iterator[Violation]) -> set[Kind]:
    return {violation.kind for violation in found}


def judged(answer: Any, known: Truth, at_s: float = LATE_S) -> set[Kind]:
    return kinds(TreeJudge(known).judge(answer, "tag", at_s))


def test_the_model_imports_nothing_but_itself_and_the_standard_library() -> None:
    """It shares no code with the product, and no mistake."""
    files = sorted(Path(model.__path__[0]).glob("*.py"))
    imported = set[str]()
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text()))):
        if isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    allowed = {"json", "re", "collections", "collections.abc", "dataclasses", "enum", "typing"}
    ours = {f"tests.chaos.model.{file.stem}" for file in files} | {"tests.chaos.model"}
    assert len(files) > 4
    assert imported <= allowed | ours


@pytest.mark.parametrize("broken", [(), ("node-sample3",), WIRING.nodes])
def test_a_right_answer_is_what_is_expected_and_violates_nothing(broken: tuple[str, ...]) -> None:
    known = truth(*broken)
    assert judged(document(*broken), known) == set()
    assert tree_of(document(*broken)) == known.expected()


@pytest.mark.parametrize(
    "change",
    [
        lambda flies: flies.clear() or flies.append("a text"),
        lambda flies: flies[0].update(more=1),
        lambda flies: flies[0].pop("status"),
        lambda flies: flies[0]["child"][0].update(status="Fine"),
        lambda flies: flies[0]["child"][0].update(name=""),
        lambda flies: flies[0].update(kind="switchbox"),
        lambda flies: flies[0].update(child=None),
    ],
)
def test_another_shape_is_a_violation(change: Callable[[Any], object]) -> None:
    assert judged(doctored(change), truth()) == {Kind.SHAPE}


@pytest.mark.parametrize(
    "change",
    [
        lambda flies: flies[0]["child"].pop(),
        lambda flies: flies[0]["child"].append(flies[0]["child"][0]),
        lambda flies: flies[0]["child"].append({**flies[0]["child"][0], "name": "nobody"}),
    ],
)
def test_a_node_that_is_missing_doubled_or_unknown_is_a_violation(
    change: Callable[[Any], object],
) -> None:
    assert judged(doctored(change), truth()) == {Kind.LOST_NODE}


def test_a_node_may_be_unknown_only_to_a_master_that_forgot_and_while_it_does_not_speak() -> None:
    answer = doctored(lambda flies: flies[0]["child"].pop(0))
    known = truth()
    known.begin(SILENCE, ("node-sample1",), 0.0)
    assert judged(answer, known) == {Kind.LOST_NODE}
    known.forget(0.0)
    assert judged(answer, known) == set()
    known.end(SILENCE, ("node-sample1",), LATE_S)
    assert judged(answer, known, LATE_S + BOUNDS.window_s) == set()
    assert judged(answer, known, LATE_S + BOUNDS.window_s + 1) == {Kind.LOST_NODE}


def test_nodes_that_are_not_wired_together_are_no_neighbours() -> None:
    def swap(flies: Any) -> None:
        first, second = flies[0]["child"], flies[1]["child"]
        first[0], second[0] = second[0], first[0]

    assert judged(doctored(swap), truth()) == {Kind.FALSE_NEIGHBOUR}
    other_box = doctored(lambda _: None)
    for box in other_box:
        box["name"] = f"{box['name']}0"
    assert judged(other_box, truth()) == {Kind.FALSE_NEIGHBOUR}


def test_a_healthy_node_may_be_not_ready_only_soon_after_it_was_not() -> None:
    answer, known = document("node-sample1"), truth("node-sample1")
    known.end("GPU", ("node-sample1",), LATE_S)
    assert judged(answer, known, LATE_S + BOUNDS.window_s) == set()
    assert judged(answer, known, LATE_S + BOUNDS.window_s + 1) == {Kind.FALSE_NOT_READY}
    known.settled()
    known.master_away(LATE_S)
    known.master_back(LATE_S)
    assert judged(answer, known, LATE_S + 1) == {Kind.FALSE_NOT_READY}, "no master is an excuse"


def test_a_faulty_node_may_be_ready_only_soon_after_it_was() -> None:
    known = truth("node-sample1")
    assert judged(document(), known, BOUNDS.window_s) == set()
    assert judged(document(), known, BOUNDS.window_s + 1) == {Kind.FALSE_READY}
    known.master_away(LATE_S)
    known.master_back(LATE_S)
    begun_s = LATE_S + BOUNDS.start_s / 2
    known.master_answered(begun_s)
    assert judged(document(), known, begun_s + BOUNDS.window_s) == set(), "it is awaited anew"
    assert judged(document(), known, begun_s + BOUNDS.window_s + 1) == {Kind.FALSE_READY}


def test_one_tag_is_one_content_and_one_content_is_one_tag() -> None:
    for other, tag in ((document("node-sample1"), "a"), (document(), "b")):
        judge = TreeJudge(truth())
        assert kinds(judge.judge(document(), "a", 1.0)) == set()
        assert kinds(judge.judge(document(), "a", 1.0)) == set()
        assert kinds(judge.judge(other, tag, 1.0)) == {Kind.TAG}


def topology(generation: int, *broken: str, run: str = "a") -> Any:
    lists: dict[str, Any] = {"unplaced": [], "conflicts": [], "unjoined": []}
    return {"run": run, "generation": generation, "groups": document(*broken), **lists}


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([topology(1), topology(1), topology(2, "node-sample1"), topology(3)], set()),
        ([topology(1), topology(3)], set()),
        ([topology(5), topology(1, "node-sample1", run="b")], set()),
        ([topology(2), topology(1, "node-sample1")], {Kind.GENERATION}),
        ([topology(1), topology(1, "node-sample1")], {Kind.GENERATION}),
        ([topology(1), topology(2)], {Kind.GENERATION}),
        ([{"run": "a"}], {Kind.SHAPE}),
        (["no document"], {Kind.SHAPE}),
    ],
)
def test_the_generation_moves_exactly_when_the_content_does(
    answers: list[Any], found: set[Kind]
) -> None:
    judge = GenerationJudge()
    assert {kind for answer in answers for kind in kinds(judge.judge(answer))} == found


def test_what_is_no_content_moves_no_generation() -> None:
    judge, other = GenerationJudge(), copy.deepcopy(topology(1))
    other["groups"][0]["capacity"] = {"free_gpus": 3}
    other["groups"][0]["reasons"] = [{"code": "incomplete", "text": "x", "since_s": 1.5}]
    later = copy.deepcopy(other)
    later["groups"][0]["reasons"][0]["since_s"] = 2.5
    settled = GenerationJudge()
    assert kinds(settled.judge(other)) | kinds(settled.judge(later)) == set()
    del other["groups"][0]["reasons"]
    assert kinds(judge.judge(topology(1))) | kinds(judge.judge(other)) == set()


@pytest.mark.parametrize(
    ("heard", "found"),
    [
        (["change 1.a", "change 2.a", "hold", "reset 9.b", "change 10.b"], set()),
        (["reset 9.a", "change 8.a", "change 9.a", "change 10.a"], set()),
        (["change 1.a", "change 3.a"], {Kind.EVENTS}),
        (["change 3.a", "change 3.a"], {Kind.EVENTS}),
        (["change 3.a", "change 4.b"], {Kind.EVENTS}),
        (["reset 3.a", "change 5.a"], {Kind.EVENTS}),
        (["change"], {Kind.EVENTS}),
    ],
)
def test_no_event_is_missing_without_a_reset(heard: list[str], found: set[Kind]) -> None:
    judge = EventJudge()
    seen = set[Kind]()
    for kind, _, name in (line.partition(" ") for line in heard):
        number = name.partition(".")[0]
        data = {"generation": int(number)} if number else {}
        seen |= kinds(judge.judge(kind, name, data))
    assert seen == found


def test_a_listener_must_hear_of_the_generation_that_is_served() -> None:
    judge = EventJudge()
    list(judge.judge("change", "3.a", {"generation": 3}))
    assert kinds(judge.behind("a", 3)) == set()
    assert kinds(judge.behind("a", 4)) == kinds(judge.behind("b", 3)) == {Kind.EVENTS}
    assert kinds(judge.judge("change", "4.a", {"generation": 5})) == {Kind.EVENTS}


def promise(name: str = "one", hold_s: float = 10.0, gpus: int = 8) -> Promise:
    taken = {"node-sample1": gpus}
    return Promise(id=name, asked_s=1.0, acked_s=2.0, hold_s=hold_s, gpus=taken)


def ledger(*promises: Promise) -> Ledger:
    made = Ledger(8, BOUNDS)
    for each in promises:
        assert kinds(made.acknowledge(each)) == set()
    return made


def test_a_promised_hold_is_listed_until_it_may_be_over_and_not_longer() -> None:
    made = ledger(promise())
    assert kinds(made.judge((), 1.5, 3.0)) == set(), "asked before it was promised"
    assert kinds(made.judge((), 3.0, 10.9)) == {Kind.HOLD_LOST}
    assert kinds(made.judge((), 3.0, 11.1)) == set(), "it may be over by then"
    over_s = 12.0 + BOUNDS.slack_s
    assert kinds(made.judge(("one",), over_s, over_s)) == set()
    assert kinds(made.judge(("one",), over_s + 0.1, over_s + 0.1)) == {Kind.HOLD_OUTLIVED}


def test_a_committed_hold_has_no_end_and_a_released_one_has() -> None:
    made, kept = ledger(promise()), promise()
    made.promises["one"] = kept
    kept.committing = True
    assert kinds(made.judge(("one",), LATE_S, LATE_S)) == set(), "nobody knows before the answer"
    made.committed("one", kept=True)
    assert kinds(made.judge(("one",), LATE_S, LATE_S)) == set()
    assert kinds(made.judge((), LATE_S, LATE_S)) == {Kind.HOLD_LOST}
    kept.releasing = True
    assert kinds(made.judge((), LATE_S, LATE_S)) == set()
    made.ended("one", LATE_S)
    assert kinds(made.judge((), LATE_S + 1, LATE_S + 1)) == set()
    assert kinds(made.judge(("one",), LATE_S + 1, LATE_S + 1)) == {Kind.HOLD_OUTLIVED}


def test_no_gpu_is_held_twice() -> None:
    made = ledger(promise(gpus=5), promise("two", gpus=3))
    assert kinds(made.acknowledge(promise("three", gpus=1))) == {Kind.GPU_TWICE}


def test_what_was_promised_counts_again_when_the_state_is_back() -> None:
    made = ledger(promise())
    doubted = made.doubt()
    assert kinds(made.acknowledge(promise("two"))) == set()
    assert kinds(made.judge((), 3.0, 3.0)) == set()
    made.trust(doubted)
    assert kinds(made.judge(("two",), 3.0, 3.0)) == {Kind.HOLD_LOST}
    made.doubt()
    made.ended("one", 4.0)
    made.trust(doubted)
    assert kinds(made.judge(("one", "two"), 5.0, 5.0)) == set(), "the release was forgotten too"


def serving(known: Truth) -> service.Service:
    known.master_answered(1.0)
    return service.Service(known)


def test_health_answers_in_time_unless_the_master_is_away() -> None:
    known = Truth(WIRING, BOUNDS, 0.0)
    known.master_back(0.0)
    late_s = 3.0 + BOUNDS.health_s
    assert kinds(service.Service(known).health(None, 2.0, late_s)) == set(), "it may start yet"
    judge = serving(known)
    assert kinds(judge.health(200, 2.0, 2.1)) == set()
    assert kinds(judge.health(200, 2.0, late_s)) == {Kind.SLOW_HEALTH}
    assert kinds(judge.health(503, 2.0, 2.1)) == {Kind.SLOW_HEALTH}
    assert kinds(judge.health(None, 2.0, 2.1)) == {Kind.SLOW_HEALTH}
    known.master_away(3.0)
    assert kinds(judge.health(None, 2.0, 3.0)) == set()
    known.master_back(4.0)
    assert kinds(judge.health(None, 5.0, 5.1)) == set()
    after_s = 5.0 + BOUNDS.start_s
    assert kinds(judge.health(None, after_s, after_s)) == {Kind.SLOW_HEALTH}


def test_a_revoked_token_is_refused_soon() -> None:
    known, late_s = truth(), 100.0 + BOUNDS.revoke_s
    judge = serving(known)
    assert kinds(judge.token("old", 404, 100.0)) == set()
    judge.revoked("old", 100.0)
    assert kinds(judge.token("old", 404, late_s)) == set()
    assert kinds(judge.token("old", 401, late_s + 1)) == set()
    assert kinds(judge.token("old", 404, late_s + 1)) == {Kind.REVOKED}
    known.master_away(late_s)
    assert kinds(judge.token("old", 404, late_s + 1)) == set(), "it could not see the file"


def test_an_end_a_traceback_and_a_secret_are_violations() -> None:
    assert service.exit_of("master", 1).kind is Kind.DIED
    assert kinds(service.log("log", "all is well\n", ("secret",))) == set()
    assert kinds(service.log("log", "my secret\n", ("secret",))) == {Kind.SECRET}
    text = "Traceback (most recent call last):\n  File x\nValueError: no\n"
    (found,) = service.log("log", text, ())
    assert found == Violation(Kind.TRACEBACK, "log: ValueError: no")


def test_a_process_ends_when_it_is_asked_to_and_a_second_master_by_itself() -> None:
    assert kinds(service.asked_to_end("master", 0)) == set()
    assert kinds(service.asked_to_end("master", -15)) == set()
    assert kinds(service.asked_to_end("master", None)) == {Kind.STUCK}
    assert kinds(service.asked_to_end("master", 1)) == {Kind.DIED}
    assert kinds(service.second_master(2)) == set()
    assert kinds(service.second_master(None)) == {Kind.TWO_MASTERS}
    assert kinds(service.second_master(0)) == {Kind.TWO_MASTERS}


def test_an_error_inside_the_service_is_a_violation_and_a_refusal_is_none() -> None:
    for status in (200, 304, 401, 404, 429, 503):
        assert kinds(service.answered("/node_group", status)) == set()
    assert kinds(service.answered("/node_group", 500)) == {Kind.ERROR}


def test_convergence_is_judged_beyond_what_silence_is_granted() -> None:
    limit_s = BOUNDS.settle_s
    assert kinds(service.convergence(limit_s, 0.0, limit_s)) == set()
    assert kinds(service.convergence(limit_s + 0.1, 0.0, limit_s)) == {Kind.UNSETTLED}
    known = truth("node-sample1")
    assert known.allowance_s() == 0.0
    known.begin(SILENCE, ("node-sample1",), 0.0)
    allowance_s = known.allowance_s()
    assert allowance_s == BOUNDS.stale_s + BOUNDS.reconnect_s
    assert kinds(service.convergence(limit_s + allowance_s, allowance_s, limit_s)) == set()


def test_every_kind_is_provoked_by_a_test() -> None:
    files = Path(__file__), Path(__file__).with_name("test_pod_history.py")
    text = "".join(each.read_text() for each in files)
    assert {kind for kind in Kind if f"Kind.{kind.name}" not in text} == set()
