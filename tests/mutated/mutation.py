"""Changes at random to an object: some that an API server would take, some that none would."""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.gangs.admission.patching import WORDS
from tests.mutated.samples import Document
from topo.gangs.annotation_keys import (
    ADMISSION_GATED_BY,
    COMPLETION_INDEX,
    CONSUMES,
    HOSTNAME,
    KUEUE_QUEUE,
    KUEUE_WORKLOAD,
    POD_GROUP,
    POD_INDEX,
    PREEMPTABLE,
    SP_BLOCK,
    TASK_INDEX,
)
from topo.gangs.job_kinds import kinds

STRANGE: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 1 << 31, (1 << 64) - 1, "", "8", "9" * 400, "\u2028", "x" * 5000),
    *([], [[]], [{}], {}, {"": {}}, {"a/b~c": "1"}, [None] * 3, {"limits": []}),
)
TEXTS: tuple[str, ...] = (
    *("", "0", "1", "2", "7", "16", "999999", "999999999", "-1", "1e3", "1k", "0x10", "٣", "16 "),
    *("true", "false", "required", "preferred", "native", "nomination", "one-by-one", "10m", "0s"),
    *("dragonfly", "switchbox", "node", "\u2028", "\x00", "a/b", "9" * 300, "{}", "null", "[[["),
    *("node-1", "hold-1", "uid-1", "own", "1x4@rack,2x2@", "300x1@zone", "2x2@rack", "gone"),
    *('{"unplanned":"x"}', '{"gang":"x"}', "pods", "jobset", "deployment", "statefulset"),
)
KEYS: tuple[str, ...] = (
    *(WORDS.asked + WORDS.of_stamp),
    *(WORDS.pod_group, WORDS.topology_key, WORDS.of_pod_group, WORDS.ungrouped, WORDS.group),
    *(WORDS.rank, WORDS.placement, WORDS.hold, WORDS.booking, WORDS.gang_name, WORDS.by_links),
    *(WORDS.of_composite, WORDS.whole_groups, TASK_INDEX, COMPLETION_INDEX, POD_INDEX, POD_GROUP),
    *(PREEMPTABLE, HOSTNAME, KUEUE_QUEUE, KUEUE_WORKLOAD, ADMISSION_GATED_BY, SP_BLOCK),
    *(name for pair in CONSUMES for name in pair),
    *(key for kind in kinds.JOB_KINDS for key in (kind.index_key, kind.repeat_key) if key),
    *(key for kind in kinds.JOB_KINDS for key in (*kind.part_keys, kind.part_scope) if key),
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology",
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-slice-size",
)
"""Every label and annotation that decides something here."""
MOST_ELEMENTS = 100

Place = tuple[Any, Any]
"""A container, and the key of one of its values."""


def places(value: Any) -> Iterator[Place]:
    """Every member and element of a value."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


class Mutation:
    """Draws objects from samples. `words`: further texts, such as the holds that there are now."""

    def __init__(
        self,
        samples: Sequence[Document],
        rng: random.Random,
        words: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._samples, self._random, self._words = samples, rng, words

    def draw(self) -> Document:
        """An object with up to five changes; of every third one any type may change."""
        rng = self._random
        made = copy.deepcopy(rng.choice(self._samples))
        changes = [self._change_text, self._state_word, self._state_word, self._change_number]
        if rng.random() < 1 / 3:
            changes += [self._remove, self._replace, self._replace, self._repeat]
        for _ in range(rng.randint(1, 5)):
            rng.choice(changes)(made)
        return made

    def _pick(self, made: Document, wanted: type | tuple[type, ...]) -> Place | None:
        found = [(of, key) for of, key in places(made) if isinstance(of[key], wanted)]
        return self._random.choice(found) if found else None

    def _text(self) -> str:
        return self._random.choice((*TEXTS, *self._words()))

    def _change_text(self, made: Document) -> None:
        if (place := self._pick(made, str)) is not None:
            of, key = place
            if key not in {"apiVersion", "kind"} or self._random.random() < 0.1:
                of[key] = self._text()

    def _change_number(self, made: Document) -> None:
        if (place := self._pick(made, int)) is not None:
            of, key = place
            of[key] = self._random.choice((0, 1, 2, 3, 5, 1000, 10**6, 2**31 - 1, -1))

    def _state_word(self, made: Document) -> None:
        """A label or annotation that decides something, on the object or one of its templates."""
        found = [
            of[key]
            for of, key in ((made, "metadata"), *places(made))
            if key == "metadata" and isinstance(of.get(key), dict)
        ]
        if not found:
            return
        metadata = self._random.choice(found)
        where = metadata.setdefault(self._random.choice(("labels", "annotations")), {})
        if isinstance(where, dict):
            where[self._random.choice(KEYS)] = self._text()

    def _remove(self, made: Document) -> None:
        of, key = self._random.choice([*places(made)])
        del of[key]

    def _replace(self, made: Document) -> None:
        of, key = self._random.choice([*places(made)])
        of[key] = copy.deepcopy(self._random.choice(STRANGE))

    def _repeat(self, made: Document) -> None:
        place = self._pick(made, list)
        if place is not None and len(found := place[0][place[1]]) < MOST_ELEMENTS:
            found.extend(copy.deepcopy(found) * self._random.randint(1, 20))
