"""Reviews of objects that something has changed at random: each is answered, and patches apply."""

import copy
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from master.admission.reviews import review
from tests.admission.asking import asked, response
from tests.gangs.admission.patching import RULES, batch, patched, sample
from tests.gangs.admission.test_admission_pods import pod
from tests.gangs.native.test_native import BOXES, PAIRS
from topo.gangs.stamp import Stamp
from topo.gangs.terms import Way

POD_GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {
        "annotations": {
            **Stamp(pods=8, rank_offset=0, pods_per_group=2).annotations(RULES.keys),
            RULES.keys.size: "16",
            RULES.keys.way: Way.NATIVE.value,
        }
    },
    "spec": {"minMember": 8},
}
KNOWN = replace(RULES, tiers=(PAIRS, BOXES))
OBJECTS = (sample(), batch(8), {"apiVersion": "v1", "kind": "Pod", **pod()}, POD_GROUP)
STRANGE: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 1 << 31, (1 << 64) - 1, "", "8", "9" * 400, "\u2028"),
    *([], [[]], [{}], {}, {"": {}}, {"a/b~c": "1"}, [None] * 3, {"limits": []}),
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every member and element of a value, as the container and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def mutated(seed: int) -> dict[str, Any]:
    """An object of a kind that is judged, with one to four changes."""
    rng = random.Random(seed)  # noqa: S311 - the same object each time
    made: dict[str, Any] = copy.deepcopy(rng.choice(OBJECTS))
    for _ in range(rng.randint(1, 4)):
        of, key = rng.choice([each for each in places(made) if each[1] != "apiVersion"])
        change = rng.randrange(4)
        if change == 0 and key != "kind":
            del of[key]
        elif change == 1 and key != "kind":
            of[key] = copy.deepcopy(rng.choice(STRANGE))
        elif change == 2 and isinstance(of, list) and len(of) < 100:
            of.extend(copy.deepcopy(of) * rng.randint(1, 50))
        elif isinstance(of[key], dict):
            name = rng.choice(("", "a/b", "gpu", RULES.keys.size))
            of[key][name] = copy.deepcopy(rng.choice(STRANGE))
    return made


def judged(seed: int) -> None:
    made = mutated(seed)
    said = response(review(asked(made), KNOWN, "warn").answer)
    assert said["allowed"] is True
    patched(made, said.get("patch", ()))


@given(st.integers(0, 1 << 32))
def test_any_object_is_answered_and_its_patch_applies(seed: int) -> None:
    judged(seed)


def test_ten_thousand_of_them_are_too() -> None:
    for seed in range(10_000):
        judged(seed)
