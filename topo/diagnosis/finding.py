"""A finding: one thing that is wrong, where it is, and the next step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from topo.model.conditions.condition import Condition, Severity
from topo.model.conditions.doctor import ServiceCondition
from topo.model.conditions.tree import ConflictCondition, NodeCondition
from topo.model.rest.findings import FindingDocument

_NAMED = 8


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be: where, what, and the next step.

    `subject` is where, in words; `subjects` are all nodes, machines and paths of groups that it
    names, empty where it is about none of them. `since_s`: seconds since the first of it was so,
    None where that is not known; so no text has an age, which would stand still. `jobs` run on
    nodes that failed together or have suspected links.
    """

    severity: Severity
    code: str
    subject: str
    what: str
    next_step: str
    subjects: tuple[str, ...] = ()
    since_s: float | None = None
    jobs: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        condition: Condition,
        subject: str | Sequence[str],
        what: str = "",
        next_step: str = "",
        *,
        since_s: float | None = None,
    ) -> Self:
        """Make the finding of a condition; its row says what is not given here.

        `subject` is a text, or the names of nodes, machines or groups.
        """
        names = () if isinstance(subject, str) else tuple(subject)
        where = subject if isinstance(subject, str) else listed(subject)
        said = what or condition.cause, next_step or condition.next_step(NODE=(*names, "")[0])
        return cls(condition.severity, condition.value, where, *said, names, since_s)

    @property
    def document(self) -> FindingDocument:
        """The finding as the API and `topo doctor -o json` write it."""
        document: FindingDocument = {
            "severity": self.severity,
            "code": self.code,
            "subject": self.subject,
            "what": self.what,
            "next_step": self.next_step,
            "subjects": self.subjects,
            "since_s": self.since_s,
        }
        if self.jobs:
            document["jobs"] = self.jobs
        return document


WITH_JOBS = frozenset(
    {
        ServiceCondition.FAILED_TOGETHER,
        ConflictCondition.LINK_SUSPECTED,
        ConflictCondition.SUSPECTED_TOGETHER,
        NodeCondition.UPLINKS_DOWN,
    }
)
"""Findings about nodes with pods that run on, and may die of what is found."""


def with_jobs(found: Finding, on: Mapping[str, Sequence[str]]) -> Finding:
    """Return a finding of `WITH_JOBS` with the jobs that run there. O(its nodes)."""
    if found.code not in WITH_JOBS:
        return found
    jobs = tuple(dict.fromkeys(job for node in found.subjects for job in on.get(node, ())))
    if not jobs:
        return found
    run = "runs" if len(jobs) == 1 else "run"
    what = f"{found.what}; {number(jobs, 'job')} {run} there: {listed(jobs)}"
    return replace(found, what=what, jobs=jobs)


class Case(NamedTuple):
    """One entry of the master's document that is not well, before it is judged.

    `subjects` name nodes, machines, or one group by its path; `fix` is the master's own next step.
    `since_s`: seconds since it is so, None where that is not known.
    """

    code: str
    subjects: tuple[str, ...]
    text: str
    fix: str = ""
    since_s: float | None = None


def longest_s(cases: Iterable[Case]) -> float | None:
    """Return for how many seconds the first of the cases is so; None where none is known."""
    return max((case.since_s for case in cases if case.since_s is not None), default=None)


def listed(names: Sequence[str]) -> str:
    """Return the first of the names, and how many more there are."""
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def number(things: Sequence[object], noun: str) -> str:
    """Return how many there are: `1 node`, `3 nodes`."""
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"
