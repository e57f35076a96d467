"""`GET /v1/findings`: what is wrong, causes before what follows, each with its next step."""

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from topo.model.conditions.catalogue import publish_codes
from topo.model.rest.document import default, one_of
from topo.model.rest.history import AsOfDocument


class FindingDocument(TypedDict):
    """One thing that is not as it should be, as `topo doctor` tells it.

    `subject` is where, in words; `subjects` are all nodes, machines and paths of groups (their
    names joined with /) that it names. A `note` may be meant as it is. `since_s`: seconds since the
    first of it was so, null where that is not known.
    """

    severity: Annotated[str, one_of("wrong", "note")]
    code: Annotated[str, Field(json_schema_extra=publish_codes)]
    subject: str
    what: str
    next_step: str
    subjects: Annotated[tuple[str, ...], default(())]
    since_s: Annotated[float | None, default(None)]


class FindingsDocument(TypedDict):
    """The findings of the tree of this `generation` and `run`, in the order to look at them.

    `as_of` only where a moment of the past was asked for.
    """

    generation: int
    run: Annotated[str, default("")]
    findings: list[FindingDocument]
    as_of: NotRequired[Annotated[AsOfDocument | None, default(None)]]
