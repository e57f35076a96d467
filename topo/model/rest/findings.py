"""`GET /v1/findings`: the problems, causes before their consequences, each with its next step.

`GET /v1/wiring`: the plan of the cables beside the cables that are there.
"""

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
    first of it was so, null where that is not known. `jobs`: those that run on nodes that failed
    together or have suspected links (namespace.name); absent where none does.
    """

    severity: Annotated[str, one_of("wrong", "note")]
    code: Annotated[str, Field(json_schema_extra=publish_codes)]
    subject: str
    what: str
    next_step: str
    subjects: Annotated[tuple[str, ...], default(())]
    since_s: Annotated[float | None, default(None)]
    jobs: NotRequired[Annotated[tuple[str, ...], default(())]]


class FindingsDocument(TypedDict):
    """The findings of the tree of this `generation` and `run`, in the order to look at them.

    `as_of` only where a moment of the past was asked for.
    """

    generation: int
    run: Annotated[str, default("")]
    findings: list[FindingDocument]
    as_of: NotRequired[Annotated[AsOfDocument | None, default(None)]]


class EndDocument(TypedDict):
    """An end of a cable: a device, and its port in the words of the plan or of the fabric."""

    device: str
    port: str


class CableDocument(TypedDict):
    """A cable that is not as planned: what `end` should be connected with, and what it is.

    `planned` and `found` are null for nothing. `line` is where the plan has it, null for a cable
    that it does not have; `racks` are those that the plan names at its two ends.
    """

    end: EndDocument
    planned: EndDocument | None
    found: EndDocument | None
    rate: str
    line: int | None
    label: str
    racks: Annotated[list[str], default([])]


class MoveDocument(TypedDict):
    """A plug to be moved to a free port, or to be exchanged with the plug there."""

    source: EndDocument
    target: EndDocument
    is_exchange: bool


class CostDocument(TypedDict):
    """What a finding costs: groups that are NotReady, GPUs that are out, jobs by name."""

    groups: list[str]
    gpus: int
    running: list[str]
    waiting: list[str]


class CableFindingDocument(TypedDict):
    """Cables that the same moves mend, and what it costs that they are not mended.

    `actions` say in words what is to be done. `cost` is null where nobody asked for it.
    """

    verdict: str
    text: str
    cables: list[CableDocument]
    moves: Annotated[list[MoveDocument], default([])]
    actions: list[str]
    cost: Annotated[CostDocument | None, default(None)]


class PlaceDocument(TypedDict):
    """A rack or a switch with its findings: `moves` mend `mended` of its `cables`."""

    name: str
    cables: int
    moves: int
    mended: int
    findings: list[CableFindingDocument]


class WiringDocument(TypedDict):
    """The findings by place, the place where a move mends most first.

    `planned` cables of the plan, `right` of them connected as planned. `counts`: the cables by
    verdict. `notes` say in words what of the plan was passed over, and how many cables are counted
    and not listed: 10,000 are, those first that a move mends.
    """

    planned: int
    right: int
    counts: dict[str, int]
    notes: list[str]
    places: list[PlaceDocument]
