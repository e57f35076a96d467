"""The tables of the states of a gang, and of the Events on jobs that have none."""

from collections.abc import Iterable

from docs.tables.section import table
from topo.model.conditions.gang_states import JOB_EVENTS, GangState

_FINDINGS = "operations.md#gang-warnings"


def states(rows: Iterable[GangState] = GangState) -> str:
    """Return the table of states: meaning, Event with its type, and what to do."""
    head = ("state", "meaning", "Event", "what to do")
    cells = ((f"`{each}`", each.row.meaning, _event(each), _step(each)) for each in rows)
    return table(head, cells)


def job_events() -> str:
    """Return the table of Events on jobs that no plan reached."""
    head = ("Event", "meaning", "what to do")
    return table(head, ((f"`{each.reason}`", each.meaning, each.step) for each in JOB_EVENTS))


def _event(state: GangState) -> str:
    return f"`{state.row.event}`, {state.row.event_type}" if state.row.event else ""


def _step(state: GangState) -> str:
    condition = state.row.condition
    return f"see [`{condition}`]({_FINDINGS})" if condition is not None else state.row.step
