"""Bodies of a known type, and parameters: known ones only, each given once.

A refusal names the field and the fix.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from aiohttp import web
from pydantic import BaseModel, ValidationError

from master.api.answers import wait_for_loop
from master.service import SERVICE
from topo.kit.serving.validation import MAX_MISTAKES, listed_mistakes
from topo.model.errors import BadInputError, Refusal
from topo.model.nearest import did_you_mean
from topo.model.rest.generation_id import GenerationId
from topo.model.rest.moment_id import EXAMPLES, MomentId

B = TypeVar("B", bound=BaseModel)
_MAX_SHOWN = 64
Kind = Literal["string", "integer", "generation", "moment"]
MAX_VALUE_CHARS = 1024


async def read_body(request: web.Request, model: type[B]) -> B:
    """Read the body as that type, and return once the caller may work on the event loop.

    Raises `BadInputError` with the field and the fix, and what `BodyReader.value` raises; 503 when
    too many wait.
    """

    def validate(content: bytes) -> B:
        try:
            return model.model_validate_json(content)
        except ValidationError as error:
            raise BadInputError(_refusal(model, error)) from None

    found = await request.app[SERVICE].api_limits.bodies.value(request, validate)
    await wait_for_loop(request)
    return found


def validate_body(model: type[B], values: dict[str, Any]) -> B:
    """Validate values from elsewhere (a query) as that type; raises like `read_body`."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise BadInputError(_refusal(model, error)) from None


def _refusal(model: type[BaseModel], error: ValidationError) -> Refusal:
    """Return the first error; a misspelt name comes before the missing field that follows from it.

    What stands at the field is shown only where it is short.
    """
    findings = listed_mistakes(error)
    if not findings:
        what = f"the body has more than {MAX_MISTAKES} mistakes"
        return Refusal(what, "body", "see /openapi.json")
    finding = next((f for f in findings if f["type"] == "extra_forbidden"), findings[0])
    kind, where = finding["type"], finding["loc"]
    field = ".".join(str(part)[:_MAX_SHOWN] for part in where) or "body"
    if kind == "json_invalid":
        return Refusal("the body is no JSON: " + finding["msg"], "body", "send a JSON object")
    if not where:
        return Refusal(finding["msg"], field, "send a JSON object")
    owner, meaning = _about(model, where)
    if kind == "extra_forbidden":
        return Refusal("there is no such field", field, _meant(str(where[-1]), owner))
    fix = f"{where[-1]} is {meaning}" if meaning else "see /openapi.json"
    if kind == "missing":
        return Refusal("the field is missing", field, fix)
    shown = repr(finding["input"])
    what = finding["msg"] if len(shown) > _MAX_SHOWN else f"{shown} does not fit: {finding['msg']}"
    return Refusal(what, field, fix)


def _meant(word: str, owner: type[BaseModel]) -> str:
    """Return a hint at the field that was probably meant: the most similar one, or all."""
    known = owner.model_fields
    return did_you_mean(word, known, f"known are: {', '.join(known)}")


def _about(model: type[BaseModel], where: tuple[int | str, ...]) -> tuple[type[BaseModel], str]:
    """Return the type that a place in the body belongs to, and the nearest field's description."""
    owner, meaning = model, ""
    for part in where:
        field = owner.model_fields.get(str(part))
        if field is None:
            continue
        meaning = " ".join((field.description or "").split())
        owner = _model_in(field.annotation) or owner
    return owner, meaning


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the first body type inside `list[X]`, `X | None` and the like."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(part) for part in get_args(annotation))
    return next((model for model in found if model is not None), None)


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
    what = f"{value[:64]!r} is not a whole number from {parameter.minimum}"
    raise BadInputError(Refusal(what, parameter.name, f"{parameter.name} is {parameter.text}"))


def _generation(value: str, parameter: Parameter) -> GenerationId:
    found = GenerationId.read(value)
    if found is None:
        what = f"{value[:64]!r} is not a generation, such as 7 or 7.5e0c21af"
        raise BadInputError(Refusal(what, parameter.name, f"{parameter.name} is {parameter.text}"))
    return found


def _moment(value: str, parameter: Parameter) -> MomentId:
    found = MomentId.read(value)
    if found is None:
        fix = f"{parameter.name} is {parameter.text}: {EXAMPLES}"
        raise BadInputError(Refusal(f"{value[:64]!r} is not a moment", parameter.name, fix))
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
