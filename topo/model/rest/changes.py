"""The changes between generations: `GET /v1/topology/diff` and `GET /v1/topology/events`."""

from typing import Annotated, NotRequired

from typing_extensions import TypedDict

from topo.model.rest.document import default, one_of
from topo.model.rest.placements import HoldSummary
from topo.model.rest.topology import CapacityCounts, SharedCardsOfNode


class ChangeDocument(TypedDict):
    """One difference between two consecutive generations; `status` of a node that came or went.

    `before` and `after` are paths, statuses, kinds or codes; empty where the subject was or is not
    there. `fabric`: the one in which a node moved (`fabric-moved`), or of which a group came or
    went (its kind is `after` or `before`); absent of all that is about the tree.
    """

    generation: int
    what: Annotated[
        str,
        one_of(
            "node-added",
            "node-removed",
            "node-moved",
            "node-status",
            "fabric-moved",
            "fabric-group-added",
            "fabric-group-removed",
            "group-added",
            "group-removed",
            "group-status",
            "conflict-added",
            "conflict-removed",
        ),
    ]
    subject: str
    before: Annotated[str, default("")]
    after: Annotated[str, default("")]
    why: Annotated[str, default("")]
    status: Annotated[str, one_of("", "Ready", "NotReady"), default("")]
    fabric: NotRequired[Annotated[str, default("")]]


class StepDocument(TypedDict):
    """The data of one event of the stream: all that made one generation of the one before."""

    generation: int
    changes: Annotated[list[ChangeDocument], default([])]


class GroupCapacityDocument(TypedDict):
    """The capacity that a group has now."""

    path: tuple[str, ...]
    capacity: CapacityCounts


class NodeCapacityDocument(SharedCardsOfNode):
    """Where the GPUs of a node are now; the fields are those of a node of the tree.

    `shared` and `cards` are there where they differ from before, empty where there are none now.
    """

    name: str
    free_gpus: int
    used_gpus: int
    held_gpus: int
    cordoned: bool


class CapacityEventDocument(TypedDict):
    """The data of an event `capacity`: the groups and nodes that have another one than before.

    `since` is the `capacity_version` of which it is the difference: who knows a lower one has
    missed something.
    """

    generation: int
    run: str
    since: int
    capacity_version: int
    groups: list[GroupCapacityDocument]
    nodes: list[NodeCapacityDocument]


class HoldEventDocument(TypedDict):
    """The data of an event `hold`: the hold as it is then, or was where it ended.

    `elsewhere` are GPUs by node where its pods are and it did not book.
    """

    event: Annotated[
        str, one_of("reserved", "committed", "released", "expired", "bound", "strayed")
    ]
    hold: HoldSummary
    elsewhere: Annotated[dict[str, int], default({})]


_From = TypedDict("_From", {"from": int})
"""The key that is a keyword of Python."""


class DiffDocument(_From):
    """What changed after `from` up to and with `to`, each counted by its run.

    `from_at` and `to_at` are their times where the two are kept moments, whose generations may be
    lower than those asked for; empty where each generation between is known.
    """

    to: int
    run: Annotated[str, default("")]
    from_run: Annotated[str, default("")]
    from_at: Annotated[str, default("")]
    to_at: Annotated[str, default("")]
    changes: list[ChangeDocument]
