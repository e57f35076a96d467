"""What is done to the cluster, round by round, from a seed: the same seed gives the same acts.

A round is a few seconds of acts, each at its own moment, after which the cluster must settle. What
is wrong with hardware may stand over one settling; everything else is mended before.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from tests.chaos.model.truth import Wiring

T = TypeVar("T")

MASTER, MANAGER = "topo-master", "cluster manager"
GPUS = 8
ROUND_S = 10.0
_LONGEST_S = 8.0
"""That a process is away or an answer is spoilt."""


class Do(StrEnum):
    """Every kind of act."""

    KILL = "kill -9"
    END = "SIGTERM"
    PAUSE = "SIGSTOP"
    CUT = "cable cut"
    UNPLUG = "one end unplugged"
    GPU = "GPU fails"
    LINK = "link down"
    SILENCE = "node silent"
    HEAL = "node healed"
    SPOIL = "manager's answers"
    API_TOKEN = "API token file"
    WORKER_TOKEN = "worker token"
    STATE = "state file"
    ATTACK = "attack on a port"


@dataclass(frozen=True, slots=True)
class Act:
    """One act, `at_s` seconds after its round begins; `lasts_s` until it is undone, if it is."""

    at_s: float
    do: Do
    target: str = ""
    how: str = ""
    lasts_s: float = 0.0

    def __str__(self) -> str:
        """A line for the log of what was done."""
        words = " ".join(filter(None, (self.do, self.target, self.how)))
        return f"{self.at_s:4.1f} s  {words}" + (f" for {self.lasts_s:.1f} s" * bool(self.lasts_s))


@dataclass(frozen=True, slots=True)
class Round:
    """The acts in the order of their times. `keeps`: broken hardware stays so while it settles."""

    number: int
    acts: tuple[Act, ...]
    keeps: bool


SPOILT = (
    *("error", "garbage", "empty", "half", "stall", "drip", "reset", "cut", "busy", "bomb"),
    *("redirect", "unauthorized", "cursor-gone", "clock-skew", "expired-certificate"),
)
ATTACKS = ("bombs", "malformed", "deaf readers", "slow heads", "long heads", "false reports")
STATES = ("corrupt", "unreadable", "second master")
TOKEN_FILES = ("rotated", "emptied", "gone", "bad line")

_HARDWARE = (Do.CUT, Do.UNPLUG, Do.GPU, Do.LINK, Do.SILENCE, Do.HEAL)
_ALWAYS = (Do.KILL, Do.KILL, Do.END, Do.PAUSE, Do.SPOIL, Do.API_TOKEN, Do.WORKER_TOKEN, Do.ATTACK)


def rounds(seed: int, wiring: Wiring) -> Iterator[Round]:
    """Rounds without end. The first ones have every kind of act in them, in a random order."""
    chance = random.Random(seed)
    first = _shuffled(chance, Do)
    hows = {do: _cycle(chance, of) for do, of in _HOWS.items()}
    number, stood = 0, False
    while True:
        number += 1
        due = [first.pop() for _ in range(min(3, len(first)))]
        # A master that forgot all cannot know what was broken before, so nothing is broken then.
        is_state = not stood and (Do.STATE in due or (not due and chance.random() < 0.2))
        ruled_out = frozenset(_HARDWARE if is_state else [Do.STATE])
        first += [do for do in due if do in ruled_out]
        chosen = [do for do in due if do not in ruled_out]
        chosen += [Do.STATE] * (is_state and Do.STATE not in chosen)
        kinds = _ALWAYS if is_state else _ALWAYS + _HARDWARE
        chosen += chance.choices(kinds, k=chance.randint(4, 9))
        acts = sorted((_act(chance, do, wiring, hows) for do in chosen), key=lambda act: act.at_s)
        stood = not is_state and Do.STATE not in first and chance.random() < 0.4
        yield Round(number, tuple(acts), keeps=stood)


_HOWS: dict[Do, Sequence[str]] = {
    Do.SPOIL: SPOILT,
    Do.ATTACK: ATTACKS,
    Do.STATE: STATES,
    Do.API_TOKEN: TOKEN_FILES,
}


def _act(chance: random.Random, do: Do, wiring: Wiring, hows: dict[Do, Iterator[str]]) -> Act:
    node, at_s = chance.choice(wiring.nodes), round(chance.uniform(0, ROUND_S), 1)
    lasts_s = round(chance.uniform(0.2, _LONGEST_S), 1)
    how = next(hows[do]) if do in hows else ""
    match do:
        case Do.KILL | Do.END | Do.PAUSE:
            victim = chance.choice((MASTER, MASTER, MANAGER, f"topo-worker {node}"))
            return Act(at_s, do, victim, lasts_s=lasts_s)
        case Do.GPU | Do.LINK:
            return Act(at_s, do, node, str(chance.randrange(GPUS)))
        case Do.SPOIL | Do.ATTACK:
            return Act(at_s, do, how=how, lasts_s=lasts_s)
        case Do.API_TOKEN | Do.STATE:
            return Act(at_s, do, how=how, lasts_s=lasts_s)
        case _:
            return Act(at_s, do, node)


def _cycle(chance: random.Random, of: Sequence[str]) -> Iterator[str]:
    """All of them in a random order, again and again: none is left out for long."""
    while True:
        yield from _shuffled(chance, of)


def _shuffled(chance: random.Random, of: Iterable[T]) -> list[T]:
    every = list(of)
    return chance.sample(every, len(every))
