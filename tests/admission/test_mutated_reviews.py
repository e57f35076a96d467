"""Reviews of objects that something has changed at random: each is answered, and patches apply.

The objects are of every kind of `kinds.JOB_KINDS`, pods and PodGroups, made and changed, under
rules that use all that an object says. What stands at a place may be of any type: an API server
checks the schema of a custom resource after the webhooks, and any client can ask.
"""

import copy
import random
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.admission.reviews import review
from tests.admission.asking import asked, response
from tests.admission.samples import JOBS, OBJECTS, RULE_SETS, SCALE
from tests.gangs.admission.patching import RULES, patched
from topo.gangs.job_kinds.kinds import JOB_KINDS

DEEP = 990
"""Deeper than Python can print or copy; the parser of reviews takes 1024 (orjson)."""
DEEP_VALUES = {
    '"<deep list>"': "[" * DEEP + "0" + "]" * DEEP,
    '"<deep object>"': '{"a":' * DEEP + "0" + "}" * DEEP,
}
"""JSON that no serializer writes, by the text that stands for it in an object."""
SHALLOW = {'"<deep list>"': "[[0]]", '"<deep object>"': '{"a":{}}'}
"""The same as far as patches see it: Python copies nothing so deep."""


STRANGE: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 1 << 31, (1 << 64) - 1, "", "8", "9" * 400, "\u2028"),
    *([], [[]], [{}], {}, {"": {}}, {"a/b~c": "1"}, [None] * 3, {"limits": []}),
    *("x" * 5000, [0] * 200, {"uid": []}, [{"kind": {}, "name": [], "apiVersion": {}}]),
    *map(orjson.loads, DEEP_VALUES),
)
KINDS = sorted(OBJECTS)
SCALED = [each for each in JOB_KINDS if each.suspended_at]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every member and element of a value, as the container and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def sent(found: Any, **request: Any) -> bytes:
    """A review of an object, in which deep values stand for their texts."""
    text = asked(found, **request).decode()
    for placed, deep in DEEP_VALUES.items():
        text = text.replace(placed, deep, 3)
    return text.encode()


def mutated(seed: int) -> tuple[str, dict[str, Any]]:
    """An object of a kind that is judged, with one to four changes."""
    rng = random.Random(seed)  # noqa: S311 - the same object each time
    name = rng.choice(KINDS)
    made: dict[str, Any] = copy.deepcopy(OBJECTS[name])
    for _ in range(rng.randint(1, 4)):
        of, key = rng.choice(list(places(made)))
        change = rng.randrange(4)
        if change == 0:
            del of[key]
        elif change == 1:
            of[key] = copy.deepcopy(rng.choice(STRANGE))
        elif change == 2 and isinstance(of, list) and len(of) < 100:
            of.extend(copy.deepcopy(of) * rng.randint(1, 50))
        elif isinstance(of[key], dict):
            added = rng.choice(("", "a/b", "gpu", RULES.keys.size))
            of[key][added] = copy.deepcopy(rng.choice(STRANGE))
    return name, made


def judge(name: str, made: dict[str, Any], rules: str, **request: Any) -> None:
    """The object is allowed or refused with a reason, and what is patched fits it."""
    kept = OBJECTS[name]
    content = sent({"apiVersion": kept["apiVersion"], "kind": kept["kind"]}, object=made, **request)
    found = review(content, RULE_SETS[rules], "warn")
    assert found.result != "other"
    if not found.answer:
        return
    said = response(found.answer)
    assert said["allowed"] is True or said["status"]["message"]
    shallow = orjson.dumps(made).decode()
    for placed, value in SHALLOW.items():
        shallow = shallow.replace(placed, value)
    patched(orjson.loads(shallow), said.get("patch", ()))


def judged(seed: int) -> None:
    name, made = mutated(seed)
    rng = random.Random(seed)  # noqa: S311 - the same rules each time
    rules = rng.choice(sorted(RULE_SETS))
    judge(name, made, rules)
    other = mutated(seed + 1)[1] if rng.random() < 0.5 else OBJECTS[name]
    if name in JOBS or (name.startswith("pod") and name != "pod-group"):
        judge(name, made, rules, operation="UPDATE", oldObject=other)
        judge(name, OBJECTS[name], rules, operation="UPDATE", oldObject=made)


@given(st.integers(0, 1 << 32))
def test_any_object_is_answered_and_its_patch_applies(seed: int) -> None:
    judged(seed)


def test_thousands_of_them_are_too() -> None:
    for seed in range(4_000):
        judged(seed)


@pytest.mark.deep
def test_three_hundred_thousand_of_them_are_too() -> None:
    for seed in range(300_000):
        judged(seed)


@pytest.mark.parametrize("name", KINDS)
def test_any_value_at_any_place_of_a_kind_is_answered(name: str) -> None:
    """One strange value at each place, made and changed, under each of the rules in turn."""
    rules, turn = sorted(RULE_SETS), 0
    made: dict[str, Any] = copy.deepcopy(OBJECTS[name])
    for of, key in list(places(made)):
        kept = of[key]
        for strange in STRANGE:
            of[key], turn = strange, turn + 1
            judge(name, made, rules[turn % len(rules)])
            if name != "pod-group":
                old = OBJECTS[name]
                changed = {"operation": "UPDATE", "oldObject": old if turn % 2 else made}
                judge(name, made if turn % 2 else old, rules[turn % len(rules)], **changed)
        of[key] = kept


@pytest.mark.parametrize("kind", SCALED, ids=[each.name for each in SCALED])
def test_any_change_of_a_scale_is_answered(kind: Any) -> None:
    """The subresource names a job by its uid, and has a number that may be none."""
    resource = {"group": kind.group, "version": kind.version, "resource": kind.resource}
    made = copy.deepcopy(SCALE)
    for of, key in list(places(made)):
        kept = of[key]
        for strange in STRANGE:
            of[key] = strange
            for new, old in ((made, SCALE), (SCALE, made)):
                of_scale = {"oldObject": old, "operation": "UPDATE", "resource": resource}
                content = sent(SCALE, object=new, **of_scale)
                for rules in RULE_SETS.values():
                    review(content, rules, "warn")
        of[key] = kept


def test_every_kind_of_job_has_an_object_to_change() -> None:
    """A new row of the table of kinds is changed at every place as the others are."""
    of_kinds = {each.name: (each.api_version, each.kind) for each in JOB_KINDS}
    assert {name: (each["apiVersion"], each["kind"]) for name, each in JOBS.items()} == of_kinds
