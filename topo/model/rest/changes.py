"""What moved between generations: `GET /v1/topology/diff` and `GET /v1/topology/events`."""

from typing import Annotated

from pydantic import Field

from topo.model.rest.document import Document, one_of
from topo.model.rest.placements import HoldSummary
from topo.model.rest.topology import Capacity


class ChangeDocument(Document):
    """One difference between two consecutive generations; `status` of a node that came or went.

    `before` and `after` are paths, statuses or codes; empty where the subject was or is not there.
    """

    generation: int
    what: Annotated[
        str,
        one_of(
            "node-added",
            "node-removed",
            "node-moved",
            "node-status",
            "group-added",
            "group-removed",
            "group-status",
            "conflict-added",
            "conflict-removed",
        ),
    ]
    subject: str
    before: str = ""
    after: str = ""
    why: str = ""
    status: Annotated[str, one_of("", "Ready", "NotReady")] = ""


class StepDocument(Document):
    """The data of one event of the stream: all that made one generation of the one before."""

    generation: int
    changes: tuple[ChangeDocument, ...] = ()


class GroupCapacityDocument(Document):
    """The capacity that a group has now."""

    path: tuple[str, ...]
    capacity: Capacity


class NodeCapacityDocument(Document):
    """Where the GPUs of a node are now; the fields are those of a node of the tree."""

    name: str
    free_gpus: int
    used_gpus: int
    held_gpus: int
    cordoned: bool


class CapacityEventDocument(Document):
    """The data of an event `capacity`: the groups and nodes that have another one than before.

    `since` is the `capacity_version` of which it is the difference: who knows a lower one has
    missed something.
    """

    generation: int
    run: str
    since: int
    capacity_version: int
    groups: tuple[GroupCapacityDocument, ...]
    nodes: tuple[NodeCapacityDocument, ...]


class HoldEventDocument(Document):
    """The data of an event `hold`: the hold as it is then, or was where it ended.

    `elsewhere` are GPUs by node where its pods are and it did not book.
    """

    event: Annotated[
        str, one_of("reserved", "committed", "released", "expired", "bound", "strayed")
    ]
    hold: HoldSummary
    elsewhere: dict[str, int] = Field(default_factory=dict)


class DiffDocument(Document):
    """What changed after `from` up to and with `to`, each counted by its run.

    `from_at` and `to_at` are their times where the two are kept moments, whose generations may be
    lower than those asked for; empty where each generation between is known.
    """

    start: Annotated[int, Field(alias="from")]
    end: Annotated[int, Field(alias="to")]
    run: str = ""
    start_run: Annotated[str, Field(alias="from_run")] = ""
    start_at: Annotated[str, Field(alias="from_at")] = ""
    end_at: Annotated[str, Field(alias="to_at")] = ""
    changes: tuple[ChangeDocument, ...]
