"""`GET /v1/history`: the moments of the tree that are kept, and how much changed at each."""

from typing import Annotated

from typing_extensions import TypedDict

from topo.model.rest.document import default


class MomentDocument(TypedDict):
    """A moment: the tree was so from `at` (RFC 3339) until the next one.

    `changes`: how many of each kind led to it, such as `node-status`; it stands for so many
    `moments`, itself and those before it that are not listed. None of the first.
    """

    at: str
    generation: int
    run: str
    moments: Annotated[int, default(1)]
    changes: dict[str, int]


class HistoryDocument(TypedDict):
    """The moments from the oldest to the newest; `now` is the master's time of the answer."""

    now: str
    moments: list[MomentDocument]


class AsOfDocument(TypedDict):
    """Which moment a tree is of. What is free, used or held is not kept: it is 0 everywhere."""

    at: str
