"""The answer of `GET /v1/nodes/{name}/gpus` as types, checked once at the border."""

from typing import NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12


class GpuDoc(TypedDict):
    """One GPU of the node."""

    index: int
    model: NotRequired[str | None]
    healthy: NotRequired[bool | None]
    free: bool


class ChoiceDoc(TypedDict):
    """The GPUs to take for `n`, or why there are none."""

    n: int
    fits: bool
    gpus: list[int]
    score: int
    loss: int
    why: str


class GpusDoc(TypedDict):
    """The links between the GPUs of one node, and by n what n of them are worth and cost."""

    node: str
    gpus: list[GpuDoc]
    links: list[list[str]]
    scores: dict[str, int]
    losses: dict[str, int]
    exact: NotRequired[bool]
    choice: NotRequired[ChoiceDoc | None]


GPUS = TypeAdapter(GpusDoc)
