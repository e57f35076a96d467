"""`application/problem+json` (RFC 9457): the body of every answer that is an error."""

from topo.model.rest.document import Document, optional


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
