"""Another manager's answers turned into documents of our contract, by the rules of a mapping.

What such a document must fulfil is said in one place, `topo.discovery.manager.contract`.
Groups may be nested in groups and machines in groups, which plain JMESPath cannot express because
it has no way back to a parent: here an inner rule is asked of every object that the outer one
found. Nor can it leave out repetitions: in a list of cables, such as UFM's, each names its switch
again. Rows that are equal in everything are one; of two that differ the contract refuses the id.
"""

import re
from dataclasses import dataclass, field

from topo.discovery.manager.expressions import AnswerValue, Expression
from topo.discovery.manager.rules import (
    EventsRule,
    GroupRule,
    HealthRule,
    LoginAuth,
    MachineRule,
    TopologyRule,
)
from topo.model.errors import BadInputError, Refusal
from topo.model.limits import MAX_TOKEN_CHARS

Document = dict[str, object]

_TOKEN = re.compile(rf"[!-~]{{1,{MAX_TOKEN_CHARS}}}")
"""What may stand in a header: printable ASCII without spaces, so no header can be smuggled in."""
_MAX_LIFE_S = 10 * 366 * 86400


@dataclass(frozen=True, slots=True)
class Grant:
    """A token and for how long it is good, in seconds from its arrival; None: until refused."""

    token: str = field(repr=False)
    expires_in_s: float | None


@dataclass(frozen=True, slots=True)
class ManagerHealth:
    """Whether the manager says it is well, and what it says about that."""

    ok: bool
    detail: str


def map_topology(
    rule: TopologyRule, document: object, tried: set[str] | None = None
) -> object | Refusal:
    """Return the manager's answer as a document of our contract, or the expression that failed.

    `tried` collects the places of the expressions that found something. One evaluation per field:
    about 10 µs per machine.
    """
    if rule.is_ours:
        return document
    place = AnswerValue(document, "topology", tried=tried)
    rows = _Rows([], [])
    try:
        for index, groups in enumerate(rule.groups):
            rows.add_groups(groups, place.inner("groups", index), None)
        for index, machines in enumerate(rule.machines):
            rows.add_machines(machines, place.inner("machines", index), None)
        answer: Document = {"groups": _once(rows.groups), "machines": _once(rows.machines)}
        if rule.cursor is not None:
            answer["cursor"] = place.text(rule.cursor, "cursor")
    except BadInputError as error:
        return error.refusal
    return answer


def map_events(rule: EventsRule, document: object) -> Document | Refusal:
    """Return the manager's page of events as one of our contract, or the expression that failed."""
    place = AnswerValue(document, "events")
    try:
        events = [event.value for event in place.each(rule.each)]
        return {"cursor": place.text(rule.cursor, "cursor"), "events": events}
    except BadInputError as error:
        return error.refusal


def map_login(rule: LoginAuth, document: object) -> Grant | Refusal:
    """Return the token of a login's answer; a refusal shows nothing of it, it may hold secrets."""
    place = AnswerValue(document, "auth")
    try:
        token = place.found(rule.token, "token")
        life = rule.expires_in_s and place.found(rule.expires_in_s, "expires_in_s")
    except BadInputError:
        return _login_refusal(rule.token, "token", "failed on the answer")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        return _login_refusal(rule.token, "token", "yielded no token")
    if life is None:
        return Grant(token, None)
    if isinstance(life, bool) or not isinstance(life, int | float) or not 0 < life < _MAX_LIFE_S:
        return _login_refusal(rule.expires_in_s or rule.token, "expires_in_s", "yielded no seconds")
    return Grant(token, float(life))


def map_health(rule: HealthRule, document: object) -> ManagerHealth | Refusal:
    """Return what the manager says of itself."""
    place = AnswerValue(document, "health")
    try:
        ok = place.found(rule.ok, "ok")
        if not isinstance(ok, bool):
            raise place.wrong(rule.ok, "ok", "true or false")
        return ManagerHealth(ok, place.optional(rule.detail, "detail") or "")
    except BadInputError as error:
        return error.refusal


def _once(rows: list[Document]) -> list[Document]:
    """Return the rows without those that repeat another word for word. O(rows)."""
    first: dict[object, list[Document]] = {}
    kept: list[Document] = []
    for row in rows:
        known = first.setdefault(row["id"], [])
        if row not in known:
            known.append(row)
            kept.append(row)
    return kept


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one answer while they are collected."""

    groups: list[Document]
    machines: list[Document]

    def add_groups(self, rule: GroupRule, place: AnswerValue, parent: str | None) -> None:
        """Add the groups of a rule and all that is inside them, parents first."""
        for found in place.each(rule.each):
            name = found.text(rule.name, "name")
            above = found.optional(rule.parent_id, "parent_id") or parent
            own = name if above is None else f"{above}/{name}"
            key = own if rule.id is None else found.text(rule.id, "id")
            kind = found.text(rule.kind, "kind")
            self.groups.append({"id": key, "name": name, "kind": kind, "parent_id": above})
            for index, inner in enumerate(rule.groups):
                self.add_groups(inner, found.inner("groups", index), key)
            for index, machines in enumerate(rule.machines):
                self.add_machines(machines, found.inner("machines", index), key)

    def add_machines(self, rule: MachineRule, place: AnswerValue, parent: str | None) -> None:
        """Add the machines of a rule; those inside a group are in that group unless they say."""
        for found in place.each(rule.each):
            names = (
                (key, found.optional(name, f"names.{key}")) for key, name in rule.names.items()
            )
            self.machines.append(
                {
                    "id": found.text(rule.id, "id"),
                    "names": {key: name for key, name in names if name},
                    "group_id": found.optional(rule.group_id, "group_id") or parent,
                    "status": _status(rule.status, found),
                }
            )


def _status(rule: Expression | None, place: AnswerValue) -> str | None:
    if rule is None:
        return None
    match place.found(rule, "status"):
        case None:
            return None
        case "Ready" | True:
            return "Ready"
        case "NotReady" | False:
            return "NotReady"
    raise place.wrong(rule, "status", "true, false, 'Ready', 'NotReady' or nothing")


def _login_refusal(rule: Expression, key: str, what: str) -> Refusal:
    return Refusal(
        f"`{rule.text}` {what} in the answer to the login",
        f"auth.{key}",
        "correct the expression; the answer is not shown, it may hold secrets",
    )
