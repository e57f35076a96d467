"""What the service says of itself, and the body of every error (RFC 9457)."""

from typing import Literal

from topo.model.rest.document import Document, optional
from topo.model.rest.topology import TreeMode, WarningDocument


class HealthDocument(Document):
    """The service works; where it does not, the answer is a problem.

    `warnings` are about how the master is run, those of `/v1/topology`.
    """

    status: Literal["ok"]
    warnings: tuple[WarningDocument, ...] = ()


class ReadyDocument(Document):
    """The tree may be shown; before that the answer is a problem.

    A follower says where it has the tree (`leader`, `config-maps`, or `state-copy`: its own disk),
    how many seconds old that is at the most, and why no leader's is shown.
    """

    status: Literal["ready"]
    origin: str = optional("")
    age_s: float | None = optional(None)
    why: str = optional("")


class IndexDocument(Document):
    """What this is, and the calls there are."""

    service: str
    version: str
    mode: TreeMode
    generation: int
    run: str
    calls: tuple[str, ...]


class Problem(Document):
    """What is wrong, the field it is about, and the fix; `title` is the status in words.

    `reasons` and `mode` stand beside a 503 of a tree that is not complete: what it waits for.
    """

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
    field: str = optional("")
    fix: str = optional("")
    reasons: tuple[str, ...] = optional(())
    mode: str = optional("")
