"""`GET /v1/nodes/{name}/gpus`: which GPUs of one node to take, and what that costs the others."""

from pydantic import Field

from topo.model.rest.document import Document


class GpuDocument(Document):
    """One GPU; `healthy` is null where nobody says. An unhealthy one is never `free`."""

    index: int
    model: str | None = None
    healthy: bool | None = None
    free: bool


class ChoiceDocument(Document):
    """The GPUs to take for `n`, with the reason; none, score 0 and loss 2000 if `n` do not fit."""

    n: int
    fits: bool
    gpus: tuple[int, ...]
    score: int
    loss: int
    why: str


class GpusDocument(Document):
    """Scores and losses of 0…2000 for n = 1…GPUs; `links[i][j]` joins `gpus[i]` and `gpus[j]`.

    `exact` is false where so many GPUs are free that not every set was looked at.
    """

    node: str
    gpus: tuple[GpuDocument, ...]
    links: tuple[tuple[str, ...], ...]
    scores: dict[str, int] = Field(description="by n: the best sum of pair weights; high is good")
    losses: dict[str, int] = Field(description="by n: what the others lose by it; low is good")
    exact: bool = True
    choice: ChoiceDocument | None = Field(None, description="null where n was not asked for")
