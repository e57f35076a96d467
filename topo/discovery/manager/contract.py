"""The answers of a cluster manager: decoded JSON in, a validated `ManagedTopology` out.

The format is our own published contract, docs/cluster-manager.openapi.yaml; managers of another
shape are brought into it first by `topo.discovery.manager.mapping`. Keys that we do not know are
ignored, so that a manager may say more than we read; keys that we miss are named together with the
nearest key that is there.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError

from topo.facts.reading.text import bounded
from topo.model.errors import Refusal
from topo.model.forest import Status
from topo.model.ids import KNOWN_KINDS, NODE, GroupName, Kind
from topo.model.nearest import did_you_mean, nearest
from topo.model.observation import ManagedGroup, ManagedMachine, ManagedTopology

MAX_MACHINES = 200_000
"""Twenty times the largest cluster that the budgets of this product name."""
MAX_GROUPS = 50_000
MAX_DEPTH = 8
"""Real hierarchies have two to four tiers; a deeper one is a loop or a mistake in the mapping."""

MANUAL = "docs/cluster-manager.openapi.yaml"

LOOSE = 0.5
"""How alike a key must be to be named: those of other managers are called otherwise altogether."""
_KEY_CHARS = 60
_QUOTED = re.compile(r"'([^']+)'")
_PRINTABLE = r"^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+$"
"""Names are shown to people: nothing that a terminal obeys, turns around or does not show."""
Key = Annotated[str, Field(min_length=1, max_length=128, pattern=_PRINTABLE)]
"""A manager's own identifier of a group or machine."""
Label = Annotated[str, Field(min_length=1, max_length=253, pattern=_PRINTABLE)]
KindWord = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9][a-z0-9._-]*$")]
NameKey = Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[a-z][a-z0-9_]*$")]
NameValue = Annotated[str, Field(max_length=512, pattern=_PRINTABLE.replace("+", "*"))]
"""A name; an empty one is what many managers write where they know none."""
Cursor = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[!-~]+$")]
"""A position in the manager's event log: opaque, printable ASCII without spaces."""


class ManagerRow(BaseModel):
    """A JSON object of the contract: typed strictly, open to keys that we do not know."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class GroupRow(ManagerRow):
    """A group as it travels."""

    id: Key
    name: Label
    kind: KindWord
    parent_id: Key | None = None

    def value(self) -> ManagedGroup:
        """Return the group in the words of the model."""
        return ManagedGroup(self.id, GroupName(self.name), Kind(self.kind), self.parent_id)


class MachineRow(ManagerRow):
    """A machine as it travels."""

    id: Key
    names: Annotated[dict[NameKey, NameValue | None], Field(max_length=16)] = {}
    group_id: Key | None = None
    status: Literal["Ready", "NotReady"] | None = None

    def value(self) -> ManagedMachine:
        """Return the machine in the words of the model."""
        status = None if self.status is None else Status(self.status)
        names = tuple((key, name) for key, name in self.names.items() if name)
        return ManagedMachine(self.id, names, self.group_id, status)


class _TopologyRow(ManagerRow):
    cursor: Cursor | None = None
    # FailFast: 200,000 rows with one mistake each are one finding, not 200,000.
    groups: Annotated[list[GroupRow], FailFast(), Field(max_length=MAX_GROUPS)]
    machines: Annotated[list[MachineRow], FailFast(), Field(max_length=MAX_MACHINES)]


@dataclass(frozen=True, slots=True)
class ManagerAnswer:
    """One full answer, and the place in the event log at which it was true (None: no events)."""

    topology: ManagedTopology
    cursor: str | None = None


def read_topology(document: object) -> ManagerAnswer | Refusal:
    """Return the answer of `GET /v1/topology`, sound and in canonical order, or what is wrong with
    it.
    """
    try:
        row = _TopologyRow.model_validate(document)
    except ValidationError as error:
        return refusal_of(error)
    stated = ManagedTopology(
        tuple(group.value() for group in row.groups),
        tuple(machine.value() for machine in row.machines),
    )
    topology = checked(stated)
    return topology if isinstance(topology, Refusal) else ManagerAnswer(topology, row.cursor)


def checked(stated: ManagedTopology) -> ManagedTopology | Refusal:
    """Return the same facts ordered by id, or the first reason why they cannot be a tree of
    machines.

    Two sound topologies that state the same are equal, whatever order they came in.
    O(n log n) for n groups and machines.
    """
    checks = (_sizes, _doubled, _dangling, _endless, _siblings)
    refusal = next((found for check in checks for found in check(stated)), None)
    if refusal is not None:
        return refusal
    return ManagedTopology(
        tuple(sorted(stated.groups, key=lambda group: group.id)),
        tuple(sorted(map(_names_in_order, stated.machines), key=lambda machine: machine.id)),
    )


def refusal_of(error: ValidationError, manual: str = MANUAL) -> Refusal:
    """Return the first finding of pydantic in our three answers: what, where, and the
    nearest key.
    """
    first = error.errors(include_url=False)[0]
    more = error.error_count() - 1
    what = first["msg"] if not more else f"{first['msg']} (and {more} more findings)"
    near = _nearest(first)
    fix = first.get("ctx", {}).get("fix") or f"see {manual}"
    return Refusal(what, spelled(first["loc"]), f"{near}; {fix}" if near else fix)


def spelled(location: Iterable[int | str]) -> str:
    """Return a place in a document as people write it: `machines[3].names`; `the document` for the
    top.
    """
    steps = (f"[{step}]" if isinstance(step, int) else f".{shown_key(step)}" for step in location)
    text = "".join(steps)
    return text.removeprefix(".") or "the document"


def shown_key(key: str) -> str:
    """Return a key that strangers chose, in a sentence: its beginning, without what a terminal
    obeys.
    """
    start = key[:_KEY_CHARS]
    text = start if start.isprintable() else repr(start)[1:-1]
    return text if start == key else f"{text}…"


def _nearest(finding: Any) -> str:
    """Return what the author of a document most likely meant; "" where nothing is near."""
    given, context = finding["input"], finding.get("ctx", {})
    if finding["type"] == "missing" and isinstance(given, dict):
        near = nearest(str(finding["loc"][-1]), map(str, given), LOOSE)
        return f"the nearest key that is there is {near!r}" if near else ""
    meant = context.get("tag", given)
    if finding["type"] in ("literal_error", "union_tag_invalid") and isinstance(meant, str):
        choices = _QUOTED.findall(context.get("expected") or context["expected_tags"])
        near = nearest(meant, choices, LOOSE)
        return f"did you mean {near!r}?" if near else ""
    return ""


def _names_in_order(machine: ManagedMachine) -> ManagedMachine:
    names = tuple(sorted(machine.names))
    return machine if names == machine.names else replace(machine, names=names)


def _sizes(stated: ManagedTopology) -> Iterator[Refusal]:
    """Refuse an empty answer: a manager that has lost its data sends one."""
    if not stated.machines:
        yield Refusal(
            "the manager lists no machine at all",
            "machines",
            "look at the manager's own inventory; what it said before is kept",
        )
    if len(stated.machines) > MAX_MACHINES or len(stated.groups) > MAX_GROUPS:
        yield Refusal(
            f"{len(stated.groups)} groups and {len(stated.machines)} machines",
            "groups, machines",
            f"at most {MAX_GROUPS} groups and {MAX_MACHINES} machines are read",
        )


def _doubled(stated: ManagedTopology) -> Iterator[Refusal]:
    for where, rows in (("groups", stated.groups), ("machines", stated.machines)):
        for key, times in Counter(row.id for row in rows).items():
            if times > 1:
                yield Refusal(
                    f"the id {key!r} occurs {times} times",
                    where,
                    "every id names one thing; a machine is in one group only",
                )


def _dangling(stated: ManagedTopology) -> Iterator[Refusal]:
    known = {group.id for group in stated.groups}
    references = chain(
        (("parent_id", f"groups, id {g.id!r}", g.parent_id) for g in stated.groups),
        (("group_id", f"machines, id {m.id!r}", m.group_id) for m in stated.machines),
    )
    for key, where, target in references:
        if target is not None and target not in known:
            near = nearest(target, known, LOOSE)
            hint = f"; the nearest is {near!r}" if near else ""
            what = f"{key} {target!r} is the id of no group"
            yield Refusal(what, where, f"list that group, or leave {key} out{hint}")


def _endless(stated: ManagedTopology) -> Iterator[Refusal]:
    parent = {group.id: group.parent_id for group in stated.groups}
    for start in parent:
        path = [start]
        while (above := parent[path[-1]]) is not None:
            if above in path:
                yield Refusal(
                    "groups contain each other in a circle",
                    "groups, ids " + " -> ".join([*path[path.index(above) :], above]),
                    "one of them must have no parent_id or another one",
                )
                return
            path.append(above)
            if len(path) > MAX_DEPTH:
                what = f"more than {MAX_DEPTH} groups above each other"
                yield Refusal(what, f"groups, id {start!r}", f"at most {MAX_DEPTH} tiers are read")
                return


def _siblings(stated: ManagedTopology) -> Iterator[Refusal]:
    """Refuse siblings of one name: a group is known by its path of names."""
    owner: dict[tuple[str | None, GroupName], str] = {}
    for group in stated.groups:
        if group.kind == NODE:
            what, where = "a group may not be of the kind 'node'", f"groups, id {group.id!r}"
            yield Refusal(what, where, "list nodes under machines")
        other = owner.setdefault((group.parent_id, group.name), group.id)
        if other != group.id:
            yield Refusal(
                f"the groups {other!r} and {group.id!r} have one name, {group.name!r}, and one"
                " parent",
                "groups",
                "rename one of them in the manager",
            )


def doubts(topology: ManagedTopology) -> tuple[str, ...]:
    """Return the kinds of groups that look like slips, each once; they are taken as they stand.

    Of many the first, and how many more there are.
    """
    kinds = dict.fromkeys(group.kind for group in topology.groups)
    hints = {kind: did_you_mean(kind, KNOWN_KINDS) for kind in kinds if kind not in KNOWN_KINDS}
    told = [
        f"kind {k!r} is taken as a kind of its own; {hint}" for k, hint in hints.items() if hint
    ]
    return bounded(told)
