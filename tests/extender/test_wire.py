"""Answers that are put together from texts: whatever nodes are named, they are what JSON says."""

import json

from hypothesis import given
from hypothesis import strategies as st

from master.extender.wire import QuestionReader, filter_answer, priorities
from topo.gangs.extender.verdicts import NodeVerdict

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
