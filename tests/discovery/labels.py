"""Nodes of a cluster whose labels name groups, in one line each."""

from collections.abc import Iterable, Mapping

from tests.builders import discovery
from topo.discovery.label_families import AUTO, LabelLevel, LabelSource, family_of_keys
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.ids import Kind, NodeName
from topo.model.observation import ClusterNodeSeen, ClusterNodesListed, ListedNode

RACKS = LabelSource(
    (
        family_of_keys(
            LabelLevel(f"example.com/{name}", Kind(name)) for name in ("room", "row", "rack")
        ),
    )
)
"""Three levels of an operator's own: none may be missing above another."""
World = Mapping[str, str | Mapping[str, str]]
"""By node: `row-1/rack-1` of room-1 (an empty part is a label without a value), or its labels."""


def labels_of(place: str | Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The labels of a place; a place `-` has none."""
    if not isinstance(place, str):
        return tuple(sorted(place.items()))
    names = () if place == "-" else ("room", "row", "rack")
    values = zip(names, ("room-1", *place.split("/")), strict=False)
    return tuple(sorted((f"example.com/{name}", value) for name, value in values))


def node(name: str, place: str | Mapping[str, str], not_ready: str = "") -> ListedNode:
    """A node of 8 GPUs with the labels of a place."""
    return ListedNode(NodeName(name), not_ready, (), labels_of(place), 8)


def listed(world: World) -> ClusterNodesListed:
    """The event of the whole list."""
    return ClusterNodesListed(tuple(node(name, place) for name, place in world.items()))


def seen(name: str, place: str | Mapping[str, str]) -> ClusterNodeSeen:
    """The event of one node."""
    return ClusterNodeSeen(node(name, place))


def labelled(
    world: World, mode: Mode = Mode.LABELS, labels: LabelSource = RACKS, **settings: object
) -> Discovery:
    """A discovery state that was told of these nodes at 0 s."""
    state = discovery(mode, labels=labels, **settings)
    state.advance(0.0, listed(world))
    state.validate()
    return state


def found(nodes: Iterable[Mapping[str, object]]) -> Discovery:
    """A discovery state that looks for families by itself, told of nodes as files have them."""
    world = {str(each["name"]): each["labels"] for each in nodes}
    return labelled(world, labels=AUTO)  # type: ignore[arg-type]
