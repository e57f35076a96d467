"""The fields in the master's refusals as the options of the command line."""

import re

from topo.model.errors import Refusal

_OWN_FLAGS = (
    *("pods", "group_size", "mode", "within", "gpu_type", "selector", "exclude", "usage", "key"),
    *("namespace", "explain", "free", "rails", "group", "depth", "format", "devices", "limit"),
)
"""Fields whose option has the same name."""
_OPTIONS = {
    **{field: f"--{field.replace('_', '-')}" for field in _OWN_FLAGS},
    "gpus_per_pod": "--gpus",
    "tolerations": "--toleration",
    "hold_s": "--hold",
    "assume": "--assume-…",
    "assume.free": "--assume-free",
    "assume.down": "--assume-down",
    "assume.drain": "--assume-drain",
    "n": "--gpus",
    "from": "FROM",
    "to": "TO",
    "node": "NODE",
    "name": "NODE",
    "id": "ID",
}
"""Fields of bodies and queries, as the person at the terminal knows them."""
_COMMANDS = {
    "GET /v1/topology": "`topo tree`",
    "GET /v1/holds": "`topo holds`",
    "POST /v1/holds": "`topo place --hold`",
}
"""Calls that a next step names, as commands."""
_FIELD = re.compile(r"(?<![-\w])assume(?:\.[a-z]+)?(?![-\w])|\b[a-z]+(?:_[a-z]+)+\b", re.ASCII)
"""What is a field and no word of English."""


def in_options(refusal: Refusal, call: str) -> Refusal:
    """Return the refusal of a call with options for fields; without a field it names the call."""
    field = _known(refusal.where)
    if field is None:
        where = refusal.where or call
        return Refusal(_spoken(refusal.what), where, _spoken(refusal.fix))
    last = re.escape(field.rpartition(".")[2])
    option = _OPTIONS[field]
    # A sentence about the field begins with it: `pods is 0`.
    what, fix = (re.sub(rf"^{last}(?= is )", option, s) for s in (refusal.what, refusal.fix))
    return Refusal(_spoken(what), option, _spoken(fix))


def _known(where: str) -> str | None:
    """Return the field that a place such as `assume.down.0` lies in."""
    parts = where.split(".")
    places = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((place for place in places if place in _OPTIONS), None)


def _spoken(sentence: str) -> str:
    """Return the sentence with options for fields, commands for calls; words like `pods` stay."""
    for call, command in _COMMANDS.items():
        sentence = sentence.replace(call, command)
    return _FIELD.sub(lambda word: _OPTIONS.get(word[0], word[0]), sentence)
