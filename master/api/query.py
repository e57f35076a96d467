"""The query of a request: only what the call knows, each value of its kind, each once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from aiohttp import web

from topo.kit.settings import nearest
from topo.model.errors import BadInputError, Refusal

MAX_VALUE_CHARS = 1024


@dataclass(frozen=True, slots=True)
class Parameter:
    """One query parameter; `minimum` bounds integers from below."""

    name: str
    kind: Literal["string", "integer"]
    text: str
    required: bool = False
    minimum: int = 0


@dataclass(frozen=True, slots=True)
class Query:
    """The values given, by kind."""

    strings: Mapping[str, str]
    integers: Mapping[str, int]


def read_query(request: web.Request, parameters: tuple[Parameter, ...]) -> Query:
    """The query's values; raises `BadInputError` with the parameter and the fix."""
    known = {parameter.name: parameter for parameter in parameters}
    strings: dict[str, str] = {}
    integers: dict[str, int] = {}
    for name, value in request.query.items():
        parameter = known.get(name)
        if parameter is None:
            raise BadInputError(_unknown(name, list(known)))
        if name in strings or name in integers:
            raise BadInputError(Refusal("the parameter is given twice", name, "give it once"))
        if parameter.kind == "integer":
            integers[name] = _integer(value, parameter)
        else:
            strings[name] = _string(value, name)
    for parameter in parameters:
        if parameter.required and parameter.name not in request.query:
            what = "the parameter is missing"
            raise BadInputError(Refusal(what, parameter.name, f"add ?{parameter.name}=…"))
    return Query(strings, integers)


def _unknown(name: str, known: list[str]) -> Refusal:
    shown = name[:64]
    otherwise = f"known are: {', '.join(known)}" if known else "this call takes none"
    return Refusal("there is no such query parameter", shown, nearest(shown, known) or otherwise)


def _integer(value: str, parameter: Parameter) -> int:
    if value.isascii() and value.isdigit() and len(value) <= 18:
        number = int(value)
        if number >= parameter.minimum:
            return number
    what = f"{value[:64]!r} is no whole number from {parameter.minimum}"
    raise BadInputError(Refusal(what, parameter.name, f"{parameter.name} is {parameter.text}"))


def _string(value: str, name: str) -> str:
    if not value or len(value) > MAX_VALUE_CHARS:
        what = f"the value has {len(value)} characters"
        raise BadInputError(Refusal(what, name, f"give 1 to {MAX_VALUE_CHARS}"))
    return value
