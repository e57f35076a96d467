"""The parameters of a request: only what the call knows, each value of its kind, each once."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from aiohttp import web

from topo.model.errors import BadInputError, Refusal
from topo.model.nearest import did_you_mean
from topo.model.rest.generation_id import GenerationId
from topo.model.rest.moment_id import EXAMPLES, MomentId

Kind = Literal["string", "integer", "generation", "moment"]
MAX_VALUE_CHARS = 1024


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the query or of the path; `minimum` bounds integers from below.

    `words` are all that a text may be, none where it may be any: whoever uses the value checks it.

    A `generation` may carry the run of the master that counted it: `7` or `7.5e0c21af`; a `moment`
    is what `MomentId` reads. One of the path stands in the route as `{name}` and is always there.
    Those of the header are described here, and read where they are used.
    """

    name: str
    kind: Kind
    text: str
    required: bool = False
    minimum: int = 0
    words: tuple[str, ...] = ()
    max_chars: int = MAX_VALUE_CHARS
    place: Literal["query", "path", "header"] = "query"


Query = Mapping[str, Any]
"""The values given, by the names of their parameters, each of its parameter's kind."""


def read_query(request: web.Request, parameters: tuple[Parameter, ...]) -> Query:
    """Return the values of query and path; raise `BadInputError` with the parameter and the fix."""
    query: dict[str, Any] = {}
    for parameter, value in _given(request, parameters):
        if parameter.name in query:
            what = "the parameter is given twice"
            raise BadInputError(Refusal(what, parameter.name, "give it once"))
        query[parameter.name] = _READ[parameter.kind](value, parameter)
    for parameter in parameters:
        if parameter.required and parameter.name not in request.query:
            what = "the parameter is missing"
            raise BadInputError(Refusal(what, parameter.name, f"add ?{parameter.name}=…"))
    return query


def _given(
    request: web.Request, parameters: tuple[Parameter, ...]
) -> Iterator[tuple[Parameter, str]]:
    """Yield each value with its parameter, those of the path first."""
    known: dict[str, Parameter] = {}
    for parameter in parameters:
        if parameter.place == "path":
            yield parameter, request.match_info[parameter.name]
        elif parameter.place == "query":
            known[parameter.name] = parameter
    for name, value in request.query.items():
        if name not in known:
            raise BadInputError(_unknown(name, list(known)))
        yield known[name], value


def _unknown(name: str, known: list[str]) -> Refusal:
    shown = name[:64]
    otherwise = f"known are: {', '.join(known)}" if known else "this call takes none"
    return Refusal("there is no such query parameter", shown, did_you_mean(shown, known, otherwise))


def _integer(value: str, parameter: Parameter) -> int:
    if value.isascii() and value.isdigit() and len(value) <= 18:
        number = int(value)
        if number >= parameter.minimum:
            return number
    what = f"{value[:64]!r} is no whole number from {parameter.minimum}"
    raise BadInputError(Refusal(what, parameter.name, f"{parameter.name} is {parameter.text}"))


def _generation(value: str, parameter: Parameter) -> GenerationId:
    found = GenerationId.read(value)
    if found is None:
        what = f"{value[:64]!r} is no generation, such as 7 or 7.5e0c21af"
        raise BadInputError(Refusal(what, parameter.name, f"{parameter.name} is {parameter.text}"))
    return found


def _moment(value: str, parameter: Parameter) -> MomentId:
    found = MomentId.read(value)
    if found is None:
        fix = f"{parameter.name} is {parameter.text}: {EXAMPLES}"
        raise BadInputError(Refusal(f"{value[:64]!r} is no moment", parameter.name, fix))
    return found


def _string(value: str, parameter: Parameter) -> str:
    if not value or len(value) > parameter.max_chars:
        what = f"the value has {len(value)} characters"
        raise BadInputError(Refusal(what, parameter.name, f"give 1 to {parameter.max_chars}"))
    return value


_READ: Mapping[Kind, Callable[[str, Parameter], object]] = {
    "string": _string,
    "integer": _integer,
    "generation": _generation,
    "moment": _moment,
}
