"""Which nodes below a HyperNode cannot be trusted, as annotations of it.

Cost: O(HyperNodes + nodes), and the names that are written. Example: n2 of dragonfly d1 in
switchbox s1 has a suspected link → `<domain>/suspected-nodes: n2` on d1 and on s1.
"""

from collections.abc import Mapping

from topo.model.forest import NodeSuspicion
from topo.model.ids import NodeName, natural_key
from topo.publish.hypernodes import HyperNodes

MOST_NAMED = 500
"""Names of 253 characters each; an object takes 256 KiB of annotations in all."""


def suspicion_keys(domain: str) -> tuple[str, str]:
    """Return the annotations of suspected nodes and of those in quarantine."""
    return f"{domain}/suspected-nodes", f"{domain}/quarantined-nodes"


def suspected_members(
    tree: HyperNodes, held: Mapping[NodeName, NodeSuspicion], domain: str
) -> Mapping[str, Mapping[str, str]]:
    """Return the annotations of each HyperNode that is to have one."""
    below: dict[str, set[NodeName]] = {}
    for each in sorted(tree.values(), key=lambda each: each.tier):
        nodes = {NodeName(name) for name in each.nodes} & held.keys()
        below[each.name] = nodes.union(*(below[name] for name in each.groups))
    suspected, quarantined = suspicion_keys(domain)
    found = {}
    for name, nodes in below.items():
        listed = {
            suspected: [node for node in nodes if held[node].links],
            quarantined: [node for node in nodes if held[node].quarantine is not None],
        }
        if nodes:
            found[name] = {key: _names(names) for key, names in listed.items() if names}
    return found


def _names(nodes: list[NodeName]) -> str:
    """Return the names in natural order, those beyond `MOST_NAMED` as their number: `a,b,+7`."""
    in_order = sorted(nodes, key=natural_key)
    more = len(in_order) - MOST_NAMED
    return ",".join([*in_order[:MOST_NAMED], *([f"+{more}"] if more > 0 else [])])
