"""What was booked, as it is written on the request: `status.provisioningClassDetails`.

    groups   switchbox-1/dragonfly-1; switchbox-1/dragonfly-3
    nodes    n1,n2;n5,n6:2        a group between semicolons, a node between commas, with its pods
    mode     required
    gpuType  MXC550
    inside   leaf spine-1/leaf-a of scale-out    of the kind that all of it must be within

A leader that finds the request provisioned and no booking of it books the same nodes again. Long
lists go on in `nodes-2`, `nodes-3`: a detail has at most 32,768 characters (the definition of the
kind), and there are at most 64.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topo.model.ids import NodeName
from topo.placement.job.plan import Pods

GROUPS, NODES, MODE, GPU_TYPE, INSIDE = "groups", "nodes", "mode", "gpuType", "inside"
MOST_CHARS = 32_768
MOST_NODE_DETAILS = 40
_NODE = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?)(?::([1-9][0-9]{0,4}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class BookedGroups:
    """The nodes of each group in the order of ranks, with the pods on each of them."""

    groups: tuple[Pods, ...]


def node_details(groups: Sequence[Pods]) -> dict[str, str] | None:
    """Return the details that hold the nodes; None where they are too long for a request."""
    text = ";".join(
        ",".join(node if pods == 1 else f"{node}:{pods}" for node, pods in group)
        for group in groups
    )
    parts = [text[at : at + MOST_CHARS] for at in range(0, len(text), MOST_CHARS)]
    if len(parts) > MOST_NODE_DETAILS:
        return None
    return {_name(number): part for number, part in enumerate(parts, 1)}


def read_nodes(details: Mapping[str, str]) -> BookedGroups | None:
    """Return the nodes in the details; None where somebody changed them into something else."""
    parts: list[str] = []
    while (name := _name(len(parts) + 1)) in details and len(parts) < MOST_NODE_DETAILS:
        parts.append(details[name])
    groups: list[Pods] = []
    for text in "".join(parts).split(";"):
        pods: list[tuple[NodeName, int]] = []
        for each in text.split(","):
            match = _NODE.fullmatch(each)
            if match is None:
                return None
            pods.append((NodeName(match[1]), int(match[3] or 1)))
        groups.append(tuple(pods))
    return BookedGroups(tuple(groups))


def shown_groups(paths: Sequence[Sequence[str]], most: int = MOST_CHARS) -> str:
    """Return the paths of groups as one text, the end cut off where it is too long."""
    text = "; ".join("/".join(path) for path in paths)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _name(number: int) -> str:
    return NODES if number == 1 else f"{NODES}-{number}"
