"""What moved between generations: `GET /v1/topology/diff` and `GET /v1/topology/events`."""

from typing import Annotated

from pydantic import Field

from topo.model.rest.document import Document, one_of


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


class DiffDocument(Document):
    """What changed after `from` up to and with `to`, both of the same run."""

    start: Annotated[int, Field(alias="from")]
    end: Annotated[int, Field(alias="to")]
    run: str = ""
    changes: tuple[ChangeDocument, ...]
