"""The findings of `topo doctor` about gangs: a warning for each condition, with examples.

A state that ends by itself is not a finding: a gang that waits for room or for its queue is only
shown by `topo gangs`.
"""

from collections.abc import Iterable, Mapping, Sequence

from master.kube.gang_pod import GangPod
from master.kube.objects import Key
from topo.gangs.status import GangStatus
from topo.model.conditions.master import GangCondition
from topo.model.rest.topology import WarningDocument
from topo.model.words import counted, listed

NOT_BOUND_S = 60.0
"""A scheduler binds a gang that is opened within seconds."""


NO_LABELS_S = 60.0
"""A new cluster has its labels within that."""
_AFTER_S = {GangCondition.NOT_BOUND: NOT_BOUND_S, GangCondition.NO_LABELS: NO_LABELS_S}
"""How long a gang has to be in the state; others are reported at once."""


def gang_warnings(
    gangs: Iterable[tuple[str, GangStatus]], slipped: Mapping[Key, GangPod], now_s: float
) -> tuple[WarningDocument, ...]:
    """Return the current warnings; `slipped` are pods created without our gate. O(gangs)."""
    names: dict[GangCondition, list[str]] = {}
    for name, status in gangs:
        condition = status.state.row.condition
        if condition is not None and now_s - status.since_s >= _AFTER_S.get(condition, 0.0):
            names.setdefault(condition, []).append(name)
    found = [_warning(each, sorted(names[each])) for each in GangCondition if each in names]
    if slipped:
        pods = sorted(f"{p.metadata.namespace}/{p.metadata.name}" for p in slipped.values())
        text = f"{counted(len(pods), 'pod')} with a group size had no gate: {listed(pods)}"
        found.append(WarningDocument.of(GangCondition.PASSED_BY, text))
    return tuple(found)


def _warning(condition: GangCondition, names: Sequence[str]) -> WarningDocument:
    text = f"gangs that {condition.cause} ({len(names)}): {listed(names)}"
    return WarningDocument.of(condition, text)
