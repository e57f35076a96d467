"""Which objects a list or a watch is asked for: `labelSelector` and `fieldSelector`, read once.

Understood are `key`, `!key`, `key=value`, `key==value`, `key!=value`, `key in (a,b)` and
`key notin (a,b)` on labels, and `=`, `==`, `!=` on the fields of `FIELDS`. Source: kubernetes.io,
"Labels and Selectors" and "Field Selectors".
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from topo.sim.kubernetes.apiserver.statuses import bad_request

Document = Mapping[str, Any]
Selector = Callable[[Document], bool]
FIELDS = ("metadata.name", "metadata.namespace", "spec.nodeName", "status.phase")
_SET = re.compile(r"(\S+)\s+(in|notin)\s+\(([^)]*)\)")
_EQUAL = re.compile(r"([^=!\s]+)\s*(!=|==|=)\s*(\S*)")
_PARTS = re.compile(r",(?![^(]*\))")


def selector_of(query: Mapping[str, str]) -> Selector:
    """Return whether an object is meant by a query. Raises `RefusedError` (400)."""
    terms = [
        *(_label_term(text) for text in _split(query.get("labelSelector", ""))),
        *(_field_term(text) for text in _split(query.get("fieldSelector", ""))),
    ]
    return lambda document: all(term(document) for term in terms)


def _split(text: str) -> Iterator[str]:
    """Yield the terms of a selector: commas inside of brackets part none."""
    yield from (part.strip() for part in _PARTS.split(text) if part.strip())


def _label_term(text: str) -> Selector:
    if (found := _SET.fullmatch(text)) is not None:
        key, word, values = found.groups()
        among = {value.strip() for value in values.split(",")}
        return lambda document: (_labels(document).get(key) in among) == (word == "in")
    if (found := _EQUAL.fullmatch(text)) is not None:
        key, sign, value = found.groups()
        return lambda document: (_labels(document).get(key) == value) == (sign != "!=")
    key = text.removeprefix("!").strip()
    return lambda document: (key in _labels(document)) == (not text.startswith("!"))


def _field_term(text: str) -> Selector:
    found = _EQUAL.fullmatch(text)
    if found is None or found[1] not in FIELDS:
        raise bad_request(f"field label not supported: {text}")
    path, sign, value = found[1].split("."), found[2], found[3]
    return lambda document: (_field(document, path) == value) == (sign != "!=")


def _labels(document: Document) -> Mapping[str, str]:
    return document["metadata"].get("labels") or {}


def _field(document: Document, path: list[str]) -> Any:
    for part in path[:-1]:
        document = document.get(part) or {}
    return document.get(path[-1], "")
