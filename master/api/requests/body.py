"""The body of a request: JSON of a known type; a refusal names the field and the fix."""

from typing import Any, TypeVar, get_args

from aiohttp import web
from pydantic import BaseModel, ValidationError

from master.api.answers.refusals import wait_for_loop
from topo.kit.serving.body import body_bytes
from topo.model.errors import BadInputError, Refusal
from topo.model.nearest import did_you_mean

B = TypeVar("B", bound=BaseModel)
_MAX_SHOWN = 64


async def read_body(request: web.Request, model: type[B]) -> B:
    """Read the body as that type, once the caller may work on the event loop.

    Raises `BadInputError` with the field and the fix, and what `body_bytes` raises; 503 when too
    many wait.
    """
    content = await body_bytes(request)
    await wait_for_loop(request)
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        raise BadInputError(_refusal(model, error)) from None


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
    findings = error.errors(include_url=False, include_context=False)
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
