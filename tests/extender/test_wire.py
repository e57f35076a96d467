"""Answers that are put together from texts: whatever nodes are named, they are what JSON says."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.extender.wire import QuestionReader, filter_answer, priorities
from topo.gangs.extender.verdicts import NodeVerdict
from topo.gangs.job_kinds.templates import MAX_CONTAINERS
from topo.model.errors import BadInputError

READER = QuestionReader(frozenset({"metax-tech.com/gpu"}), "metax-tech.com", ("model", "pool"))
ODD = ['"', '","', "\\", '":"', "ä", "\x00", "\u2028", "", "a{}"]
NAMES = st.sampled_from(["node-1", "node-2", "10.0.0.3", *ODD]) | st.text(max_size=4)
SCORED = st.dictionaries(NAMES, st.integers(0, 10), max_size=6)
LETTERS = st.sampled_from([("Pod", "NodeNames"), ("pod", "nodenames")])


@given(scored=SCORED, letters=LETTERS)
def test_each_named_node_has_its_score_in_the_order_of_the_question(
    scored: dict[str, int], letters: tuple[str, str]
) -> None:
    pod, names = letters
    asked = READER.read(json.dumps({pod: {}, names: list(scored)}).encode())
    keys = ("host", "score") if pod == "pod" else ("Host", "Score")
    answer = json.loads(priorities(asked, [*scored.values()]))
    assert answer == [dict(zip(keys, each, strict=True)) for each in scored.items()]


@given(
    nodes=st.dictionaries(NAMES, st.sampled_from([None, "held", 'why "so"', "ü"]), max_size=6),
    is_final=st.booleans(),
)
def test_each_node_that_does_not_pass_has_its_reason(
    nodes: dict[str, str | None], *, is_final: bool
) -> None:
    asked = READER.read(json.dumps({"Pod": {}, "NodeNames": list(nodes)}).encode())
    failed: dict[str, list[str]] = {}
    for name, why in nodes.items():
        if why is not None:
            failed.setdefault(why, []).append(name)
    passed = [name for name, why in nodes.items() if why is None]
    verdict = NodeVerdict(passed, failed, is_final=is_final)
    answer = json.loads(filter_answer(asked, verdict))
    key = "FailedAndUnresolvableNodes" if is_final else "FailedNodes"
    assert answer[key] == {name: why for name, why in nodes.items() if why is not None}
    assert answer["NodeNames"] == passed


CARD = "metax-tech.com/gpu"


def question(pod: Any, **nodes: Any) -> bytes:
    return json.dumps({"Pod": pod, **nodes}).encode()


@pytest.mark.parametrize("field", ["containers", "initContainers"])
@pytest.mark.parametrize("amounts", ["limits", "requests"])
def test_what_comes_of_a_pod_is_whether_it_asks_for_cards(field: str, amounts: str) -> None:
    container = {"resources": {amounts: {CARD: "8"}}}
    metadata = {"namespace": "jobs", "name": "a", "uid": "u", "labels": {"a": "b"} | {"c": "d"}}
    asked = READER.read(question({"metadata": metadata, "spec": {field: [{}, container]}}))
    assert (asked.key, asked.uid, asked.wants_cards) == (("jobs", "a"), "u", True)
    assert not READER.read(question({"spec": {field: [{}, 1, None]}})).wants_cards


def test_of_a_whole_node_its_json_and_its_place_come() -> None:
    labels = {"model": "M40", "pool": "wx"} | {f"l{each}": "" for each in range(9)}
    node = {"metadata": {"name": "a", "labels": labels}, "status": {"images": [1, {"b": None}]}}
    asked = READER.read(question({}, Nodes={"items": [node, {"metadata": {"name": 7}}, 5]}))
    assert asked.places == {"a": ("M40", "wx")}
    assert [*asked.names] == ["a"]
    answer = json.loads(filter_answer(asked, NodeVerdict(asked.names)))
    assert answer["Nodes"] == {"items": [node]}


def test_a_pod_of_more_containers_than_any_has_is_refused_with_the_number() -> None:
    pod: dict[str, Any] = {"spec": {"containers": [{}] * MAX_CONTAINERS, "initContainers": [{}]}}
    with pytest.raises(BadInputError, match=f"has {MAX_CONTAINERS + 1} containers"):
        READER.read(question(pod))
    pod["spec"]["initContainers"] = []
    assert not READER.read(question(pod)).wants_cards


@pytest.mark.parametrize("deep", ["[" * 900 + "0" + "]" * 900, '{"a":' * 900 + "0" + "}" * 900])
@pytest.mark.parametrize(
    "frame",
    [
        '{"Pod":{"metadata":%s,"spec":%s}}',
        '{"Pod":{"metadata":{"name":%s,"uid":%s}}}',
        '{"Pod":{"spec":{"containers":%s,"initContainers":[%s]}}}',
        '{"Pod":{"spec":{"containers":[{"resources":{"limits":{"volcano.sh/vgpu-number":%s}}}]}},"a":%s}',
    ],
)
def test_what_is_nested_without_end_is_read_as_nothing(frame: str, deep: str) -> None:
    asked = READER.read((frame % (deep, deep)).encode())
    assert (asked.key, asked.uid) == (("default", ""), "")


def test_a_whole_node_that_cannot_be_written_again_is_refused() -> None:
    node = '{"metadata":{"name":"n"},"a":' + "[" * 900 + "]" * 900 + "}"
    with pytest.raises(BadInputError, match="250 deep"):
        READER.read(f'{{"Pod":{{}},"Nodes":{{"items":[{node}]}}}}'.encode())
