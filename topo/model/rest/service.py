"""The small documents of the service about itself: `/health`, `/ready` and `/`."""

from typing import Literal

from topo.model.rest.document import Document
from topo.model.rest.topology import TreeMode


class HealthDocument(Document):
    """The service works; where it does not, the answer is a problem."""

    status: Literal["ok"]


class ReadyDocument(Document):
    """The tree may be shown; before that the answer is a problem."""

    status: Literal["ready"]


class IndexDocument(Document):
    """What this is, and the calls there are."""

    service: str
    version: str
    mode: TreeMode
    generation: int
    run: str
    calls: tuple[str, ...]
