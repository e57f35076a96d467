"""The status of a gang: its state, why it is in it and since when, and where its pods are."""

from dataclasses import dataclass

from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName

MOST_TRANSITIONS = 20
"""Kept per gang: enough for the life of a job, and a few kilobytes of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStatus:
    """One status for all placement modes; a state has the same meaning in each.

    `text` says why it is in `state`. `since_s` is when it came into it, on the master's clock.
    `would_fit` is the smallest change that lets it in, empty where none was looked for. `ahead` is
    the number of gangs before it in the queue, None outside of the queue. `places` are the nodes
    that its pods have or are planned on, by rank.
    """

    state: GangState
    text: str
    since_s: float = 0.0
    would_fit: str = ""
    ahead: int | None = None
    places: tuple[tuple[int, NodeName], ...] = ()

    @property
    def message(self) -> str:
        """The text together with what would let the gang in."""
        return f"{self.text}. {self.would_fit}" if self.would_fit else self.text


@dataclass(frozen=True, slots=True)
class Transition:
    """A gang came into `state` at `at_s`, Unix time, for the reason that `text` gives.

    `is_read`: it is read from the condition of the gang's first pod, which an earlier leader wrote.
    """

    at_s: float
    state: GangState
    text: str
    is_read: bool = False
