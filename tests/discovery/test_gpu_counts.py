"""The number of GPUs that most nodes of a group have, against counting all of them anew."""

import random
from collections import Counter

from topo.discovery.tree.gpu_counts import GpuPlace, GroupGpuCounts
from topo.model.ids import NodeName

NODES = [NodeName(f"node-{n}") for n in range(7)]


def counted(places: dict[NodeName, GpuPlace], node: NodeName) -> int:
    """What most of a node's equals have, by looking at every node."""
    own = places.get(node)
    if own is None:
        return 0
    near = [each for each in places.values() if each.group == own.group]
    numbers = Counter(p.gpus for p in near if not own.gpu_type or p.gpu_type == own.gpu_type)
    return max(numbers, key=lambda each: (numbers[each], each))


def test_after_any_moves_the_number_is_that_of_most_and_all_whose_number_changed_are_named():
    """Groups of one make and of several, of types nobody knows, nodes that come, change and go."""
    draw, changes = random.Random(7), 0  # noqa: S311 - no secret
    for _ in range(60):
        equals, places = GroupGpuCounts(), dict[NodeName, GpuPlace]()
        for _ in range(60):
            before = {node: equals.expected(node) for node in NODES}
            node = draw.choice(NODES)
            place = GpuPlace(
                draw.choice("ab"), draw.choice(["", "H200", "C500"]), draw.choice([7, 8])
            )
            stays = draw.random() < 0.8
            named = set(equals.put(node, place if stays else None))
            places.pop(node, None)
            if stays:
                places[node] = place
            after = {node: equals.expected(node) for node in NODES}
            assert after == {node: counted(places, node) for node in NODES}
            changed = {each for each in NODES if before[each] != after[each]}
            assert changed <= named | {node}
            changes += len(changed - {node})
            equals.validate(dict.fromkeys(NODES) | places)
    assert changes > 100
