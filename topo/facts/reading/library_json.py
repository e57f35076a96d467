"""What the readers of our own library probes share: JSON with one entry per device.

A probe writes the library's raw numbers; a vendor's reader holds the table of what they mean.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, TypeVar

from annotated_types import Ge, Le, MaxLen
from pydantic import BaseModel, ConfigDict, ValidationError

from topo.facts.reader import Mark, Read, Reader, Trust
from topo.facts.reading import log_marks
from topo.facts.reading.identity import gpu_uuid, known, normal_bdf
from topo.facts.reading.text import WHOLE_TEXT, shorten, stated
from topo.model.errors import Refusal
from topo.model.machine import MAX_GPUS, Gpu, Link, LinkKind, LinkMatrix
from topo.model.observation import ParsedProbe, ProbeFact

Row = Annotated[tuple[int | None, ...], MaxLen(MAX_GPUS)]
Square = Annotated[tuple[Row, ...], MaxLen(MAX_GPUS)]
"""A matrix of raw numbers; None or a negative number where a call failed."""
_SELF = Link(LinkKind.SELF, "X")
UNDEFINED = Link(LinkKind.NONE, "NA")


class LibraryText(BaseModel):
    """Base of all shapes. Unknown keys are ignored, so that neighbouring versions get along."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class FailedCall(LibraryText):
    """A library call that failed: for one device, or for the host (`device` null)."""

    call: str
    device: int | None = None
    code: int


FailedCalls = Annotated[tuple[FailedCall, ...], MaxLen(10_000)]


class DeviceText(LibraryText):
    """What every library states of a device."""

    index: Annotated[int, Ge(0), Le(MAX_GPUS - 1)]
    uuid: str | None = None
    bdf: str | None = None
    name: str | None = None

    def gpu(self) -> Gpu:
        """Return the GPU as far as these four fields state it."""
        return Gpu(
            index=self.index,
            uuid=gpu_uuid(self.uuid),
            bdf=normal_bdf(self.bdf or ""),
            model=known(shorten(self.name or "")),
        )


T = TypeVar("T", bound=LibraryText)


def reader(name: str, read: Read) -> Reader:
    """Return the reader of texts that contain `"format": name`."""
    named = re.compile(rf'"format"\s{{0,64}}:\s{{0,64}}"{name}"')

    begins = log_marks.titles(re.compile(rf"^\{{\s{{0,64}}{named.pattern}", re.MULTILINE))

    def recognises(text: str) -> bool:
        return named.search(text) is not None

    mark, trust = Mark.FORMAT_NAME, Trust.LIBRARY
    return Reader(name, mark, recognises, read, trust=trust, ending="json", begins=begins)


def load(shape: type[T], text: str, probe: str) -> T | Refusal:
    """Return `text` as `shape`; refused with the path of the first field that does not fit."""
    try:
        return shape.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return Refusal(
            f"no text of the {probe} probe: {shorten(first['msg'], 120)}",
            ".".join(str(part) for part in first["loc"]) or WHOLE_TEXT,
            f"record the {probe} probe again with `topo-worker --record`",
        )


def understood(
    probe: str,
    gpus: Sequence[Gpu],
    others: Iterable[ProbeFact | None],
    warnings: list[str],
    *,
    tool: str,
) -> ParsedProbe | Refusal:
    """Return the GPUs in the order of their indexes, and the other facts that are not empty.

    Refused: no GPU, or one index twice; `tool` shows a person which devices there are.
    """
    if len({gpu.index for gpu in gpus}) < len(gpus) or not gpus:
        what = "a device is listed twice" if gpus else "the library lists no device"
        return Refusal(what, "devices", f"check `{tool} -L` on the host")
    listed = tuple(sorted(gpus, key=lambda gpu: gpu.index))
    return stated(probe, (listed, *others), warnings)


def failures(calls: Iterable[FailedCall]) -> list[str]:
    """Return the failed calls as warnings."""
    return [
        f"{shorten(call.call, 60)}"
        + ("" if call.device is None else f" of device {call.device}")
        + f": code {call.code}"
        for call in calls
    ]


def link_at_level(levels: Mapping[int, Link], number: int | None) -> Link:
    """Return the link that a library's level stands for; of kind UNKNOWN where the table has it
    not.
    """
    if number is None or number < 0:
        return UNDEFINED
    return levels.get(number) or Link(LinkKind.UNKNOWN, shorten(str(number), 16))


def link_matrix(
    indexes: Sequence[int], link: Callable[[int, int], Link], numa: Iterable[int | None]
) -> LinkMatrix:
    """Return the matrix over the GPUs of these indexes; `link` gives the link of two different
    places.
    """
    size = range(len(indexes))
    links = tuple(tuple(_SELF if a == b else link(a, b) for b in size) for a in size)
    return LinkMatrix(
        gpus=tuple(f"GPU{index}" for index in indexes),
        nics=(),
        links=links,
        numa=tuple(numa),
        cpus=("",) * len(links),
        unknown_codes=sum(link.kind is LinkKind.UNKNOWN for row in links for link in row),
    )
