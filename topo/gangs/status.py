"""The status of a gang: its state with reason and time, and the nodes of its pods."""

from dataclasses import dataclass

from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName

MOST_TRANSITIONS = 20
"""Kept per gang: enough for the life of a job, and a few kilobytes of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStatus:
    """One status for all placement modes; a state has the same meaning in each.

    `text` is the reason of `state`. `since_s` is when the gang entered the state, on the master's
    clock. `would_fit` is the smallest change that would admit the gang, empty if it was not
    searched. `ahead` is the number of gangs ahead of it in the queue, None outside the queue.
    `places` are the bound or planned nodes of its pods, by rank.
    """

    state: GangState
    text: str
    since_s: float = 0.0
    would_fit: str = ""
    ahead: int | None = None
    places: tuple[tuple[int, NodeName], ...] = ()

    @property
    def message(self) -> str:
        """The text, with the smallest change that would admit the gang."""
        return f"{self.text}. {self.would_fit}" if self.would_fit else self.text


@dataclass(frozen=True, slots=True)
class Transition:
    """A gang came into `state` at `at_s`, Unix time, for the reason that `text` gives.

    `is_read`: the transition was read from the condition that an earlier leader wrote on the gang's
    first pod.
    """

    at_s: float
    state: GangState
    text: str
    is_read: bool = False
