"""`GET /v1/history`: the moments of the tree that are kept, and how much changed at each."""

from topo.model.rest.document import Document


class MomentDocument(Document):
    """A moment: the tree was so from `at` (RFC 3339) until the next one.

    `changes`: how many of each kind led to it, such as `node-status`; it stands for so many
    `moments`, itself and those before it that are not listed. None of the first.
    """

    at: str
    generation: int
    run: str
    moments: int = 1
    changes: dict[str, int]


class HistoryDocument(Document):
    """The moments from the oldest to the newest; `now` is the master's time of the answer."""

    now: str
    moments: tuple[MomentDocument, ...]


class AsOfDocument(Document):
    """Which moment a tree is of. What is free, used or held is not kept: it is 0 everywhere."""

    at: str
