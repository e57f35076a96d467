"""What the service says of itself, and the body of every error (RFC 9457)."""

from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from topo.model.rest.document import default
from topo.model.rest.topology import TreeMode, WarningDocument


class HealthDocument(TypedDict):
    """The service works; where it does not, the answer is a problem.

    `warnings` are about how the master is run, those of `/v1/topology`.
    """

    status: Literal["ok"]
    warnings: Annotated[list[WarningDocument], default([])]


class ReadyDocument(TypedDict):
    """The tree may be shown; before that the answer is a problem.

    A follower says where it has the tree (`leader`, `config-maps`, or `state-copy`: its own disk),
    how many seconds old that is at the most, and why no leader's is shown.
    """

    status: Literal["ready"]
    origin: NotRequired[Annotated[str, default("")]]
    age_s: NotRequired[Annotated[float | None, default(None)]]
    why: NotRequired[Annotated[str, default("")]]


class IndexDocument(TypedDict):
    """What this is, and the calls there are; `docs`: the address of its documentation, or empty."""

    service: str
    version: str
    mode: TreeMode
    generation: int
    run: str
    docs: str
    calls: tuple[str, ...]


class Problem(TypedDict):
    """What is wrong, the field it is about, and the fix; `title` is the status in words.

    `reasons` and `mode` stand beside a 503 of a tree that is not complete: what it waits for.
    """

    type: Annotated[str, default("about:blank")]
    title: Annotated[str, default("")]
    status: Annotated[int, default(0)]
    detail: Annotated[str, default("")]
    field: NotRequired[Annotated[str, default("")]]
    fix: NotRequired[Annotated[str, default("")]]
    reasons: NotRequired[Annotated[tuple[str, ...], default(())]]
    mode: NotRequired[Annotated[str, default("")]]
