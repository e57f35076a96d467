"""Which GPUs of one node to take, and what that costs the others; which shared cards.

`GET /v1/nodes/{name}/gpus` and `GET /v1/shared-cards`.
"""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from topo.model.rest.document import default
from topo.model.rest.topology import AmountDocument, UplinkDocument

_SCORES = "by n: the best sum of pair weights; high is good"
_LOSSES = "by n: what the others lose by it; low is good"
_CHOICE = "null where n was not asked for"


class GpuDocument(TypedDict):
    """One GPU; `healthy` is null where nobody says. An unhealthy one is never `free`."""

    index: int
    model: Annotated[str | None, default(None)]
    healthy: Annotated[bool | None, default(None)]
    free: bool


class ChoiceDocument(TypedDict):
    """The GPUs to take for `n`, with the reason; none, score 0 and loss 2000 if `n` do not fit.

    `rails`: those of the GPUs' adapters, where the node's group has rails.
    """

    n: int
    fits: bool
    gpus: tuple[int, ...]
    score: int
    loss: int
    rails: Annotated[tuple[int, ...], default(())]
    why: str


class GpusDocument(TypedDict):
    """Scores and losses of 0…2000 for n = 1…GPUs; `links[i][j]` joins `gpus[i]` and `gpus[j]`.

    `uplinks`: the cables to switches, with the GPUs beside which they begin.
    `exact` is false where so many GPUs are free that not every set was looked at.
    """

    node: str
    gpus: list[GpuDocument]
    links: tuple[tuple[str, ...], ...]
    scores: Annotated[dict[str, int], Field(description=_SCORES)]
    losses: Annotated[dict[str, int], Field(description=_LOSSES)]
    uplinks: Annotated[list[UplinkDocument], default([])]
    exact: Annotated[bool, default(True)]
    choice: Annotated[ChoiceDocument | None, default(None), Field(description=_CHOICE)]


class CardFamilyDocument(TypedDict):
    """The cards of one family; `idle`: of which no pod has anything.

    `largest` is what is left of the card with the most cores free: the largest part to be had.
    """

    family: str
    nodes: int
    cards: int
    idle: int
    total: AmountDocument
    used: AmountDocument
    free: AmountDocument
    largest: AmountDocument


class CardChoiceDocument(TypedDict):
    """A node and its cards for the pod; `score` orders nodes, the best has 10.

    `way`: binpack, spread, or how GPUManager chooses: link, fragment, share.
    """

    node: str
    cards: list[str]
    score: int
    way: str


class SharedCardsReport(TypedDict):
    """All families; with a request the nodes that can take it, the best first, at most 64.

    `why`: why no node can; empty without a request, or where one can.
    """

    families: list[CardFamilyDocument]
    choices: Annotated[list[CardChoiceDocument], default([])]
    why: Annotated[str, default("")]
