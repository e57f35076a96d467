"""The table of how large things may be: each number is that of the code."""

from collections.abc import Sequence

from docs.tables.section import table
from master.settings import MasterSettings
from master.sources.workers.sessions import MAX_NODES
from topo.cli.worlds import MAX_NODES as SIMULATED_NODES
from topo.discovery.manager.contract import MAX_DEPTH, MAX_GROUPS, MAX_MACHINES
from topo.model.machine import MAX_GPUS
from topo.placement.booking.holds import Limits

_MASTER = MasterSettings()
_ROWS: Sequence[tuple[str, int, str]] = (
    ("nodes that report to one master", MAX_NODES, "a worker more is refused: `too-many-nodes`"),
    ("GPUs of a node", MAX_GPUS, "the probe is refused"),
    (
        "machines of a cluster manager",
        MAX_MACHINES,
        "its answer is refused, the last good stays",
    ),
    ("groups of a cluster manager", MAX_GROUPS, "the same"),
    ("groups within groups", MAX_DEPTH, "the same"),
    ("pods of one placement or hold", Limits().pods, "refused, with the number"),
    ("holds at once", _MASTER.max_holds, "refused; `--max-holds`"),
    ("nodes of a simulated world", SIMULATED_NODES, "refused"),
)


def render() -> str:
    """Return the table: what, how many, and what happens beyond it."""
    rows = ((what, f"{number:,}", then) for what, number, then in _ROWS)
    return table(("what", "at most", "beyond it"), rows)
