"""Links and components against a graph library, over any statements in any batches."""

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from topo.discovery.groups.wiring import Wiring
from topo.model.ids import NodeName, ServerUuid

NAMES = [f"n{i}" for i in range(10)]
_views = st.fixed_dictionaries({}, optional={n: st.sets(st.sampled_from(NAMES)) for n in NAMES})


@given(st.lists(_views, min_size=1, max_size=6))
def test_components_are_those_of_a_graph_library_after_every_batch(
    batches: list[dict[str, set[str]]],
) -> None:
    wiring = Wiring(incumbent_s=60.0)
    stated: dict[str, set[str]] = {}
    for now_s, views in enumerate(batches):
        stated |= views
        for node, peers in views.items():
            claims = sorted(ServerUuid(peer) for peer in peers - {node})
            wiring.update(NodeName(node), ServerUuid(node), claims)
        wiring.settle(float(now_s))
        graph: nx.Graph[str] = nx.Graph()
        graph.add_nodes_from(stated)
        graph.add_edges_from(
            (one, other)
            for one, peers in stated.items()
            for other in peers - {one}
            if one in stated.get(other, set())
        )
        for expected in nx.connected_components(graph):
            for node in expected:
                assert wiring.component(NodeName(node)) == expected
