"""What somebody should do about gangs, for `topo doctor`: a warning for each cause, with examples.

What passes by itself is none: a gang that waits for room or for its queue is said so where it is
asked about (`topo gangs`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from master.controllers.nomination.status.status_writer import Told
from master.kube.objects import Key, PodObject
from topo.gangs.machine.gang import Gang
from topo.gangs.machine.instructions import GangReason
from topo.model.rest.topology import WarningDocument
from topo.placement.job.words import counted, listed

NOT_BOUND_S = 60.0
"""A scheduler binds what it is let have within seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cause:
    """Gangs that stand so, each of them for so long at least, and what to do about it."""

    code: str
    reasons: frozenset[GangReason]
    what: str
    fix: str
    for_s: float = 0.0

    def warning(self, names: Sequence[str]) -> WarningDocument:
        text = f"{counted(len(names), 'gang')} {self.what}: {listed(names)}"
        return WarningDocument(code=self.code, text=text, fix=self.fix)


_CAUSES = (
    _Cause(
        code="gang-split",
        reasons=frozenset({GangReason.SPLIT}),
        what="run with a group in several domains although it is required whole",
        fix="restart the job to have it placed anew; `topo why JOB` says which group, and of a"
        " native job whether Volcano heeds groups at all",
    ),
    _Cause(
        code="gang-hopeless",
        reasons=frozenset({GangReason.NEVER_FITS, GangReason.NEVER_LET_IN}),
        what="wait for what never comes",
        fix="`topo why JOB` has the smallest change; while it waits, its pods count as asked"
        " for in its queue, which takes from the share of others: else delete the job",
    ),
    _Cause(
        code="gang-no-groups",
        reasons=frozenset({GangReason.NO_GROUPS}),
        what="wait for groups of nodes, and none are known",
        fix="name the groups in the file of --config-file (mode config), or see whether topo-worker"
        " runs on the nodes; with the annotation <domain>/gpu-group-wait a job runs ungrouped after"
        " that time",
    ),
    _Cause(
        code="gang-stuck",
        reasons=frozenset({GangReason.HALF_BOUND, GangReason.DISPLACED}),
        what="lost planned nodes and find no others",
        fix="`topo why JOB` names the nodes; free one in the domain of its group, or restart"
        " the job (a batch Job: suspend it and resume it, which counts as no failure)",
    ),
    _Cause(
        code="gang-not-bound",
        reasons=frozenset({GangReason.OPENED, GangReason.PREEMPTS}),
        what=f"were let go more than {NOT_BOUND_S:.0f} s ago and are not bound",
        fix="does their scheduler run? `kubectl describe pod` of one says what it lacks; over"
        " pods of lower priority, Volcano needs the action preempt and a priority class of the job"
        " (`topo why JOB`)",
        for_s=NOT_BOUND_S,
    ),
    _Cause(
        code="gang-write-refused",
        reasons=frozenset({GangReason.WRITE_REFUSED}),
        what="are held up by the API server, which refuses a write",
        fix="`topo why JOB` has its words: a right of the master, or a webhook of somebody's",
    ),
)


def gang_warnings(
    gangs: Iterable[tuple[Gang, Told]], slipped: Mapping[Key, PodObject], now_s: float
) -> tuple[WarningDocument, ...]:
    """The warnings now; `slipped` are pods that were made without our gate. O(gangs)."""
    names: dict[_Cause, list[str]] = {}
    for gang, told in gangs:
        for cause in _CAUSES:
            if told.reason in cause.reasons and now_s - told.since_s >= cause.for_s:
                names.setdefault(cause, []).append(f"{gang.namespace}/{gang.name}")
    found = [cause.warning(sorted(named)) for cause in _CAUSES if (named := names.get(cause))]
    if slipped:
        pods = sorted(f"{p.metadata.namespace}/{p.metadata.name}" for p in slipped.values())
        text = f"{counted(len(pods), 'pod')} with a group size had no gate: {listed(pods)}"
        fix = (
            "does the webhook answer, and cover the namespace? `kubectl get"
            " mutatingwebhookconfigurations`, the label <domain>/placement of the namespace. A job"
            " that was made before is placed once it is deleted and created again"
        )
        found.append(WarningDocument(code="gang-passed-by", text=text, fix=fix))
    return tuple(found)
