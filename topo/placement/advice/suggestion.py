"""A change under which a job that was refused would fit."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from topo.placement.capacity.what_if import Assumptions
from topo.placement.job.request import Request


class SuggestionKind(StrEnum):
    """What would be changed, in the order of an answer: first what keeps the whole job, then what
    makes it smaller, then what others have to do for it.
    """

    ANYWHERE = "anywhere"
    GPU_TYPE = "gpu_type"
    GROUP_SIZE = "group_size"
    PREFERRED = "preferred"
    ANY_NODE = "any_node"
    TOLERATE = "tolerate"
    FEWER_PODS = "fewer_pods"
    SEVERAL_CHANGES = "several_changes"
    OPEN_NODES = "open_nodes"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A change that was tried: a `request` to send instead, or, with the request as it is, nodes
    to `assume` free or `owners` to release. `numbers` are those of the text, by name.
    """

    kind: SuggestionKind
    text: str
    numbers: Mapping[str, int]
    request: Request | None = None
    assume: Assumptions | None = None
    owners: tuple[str, ...] = ()
