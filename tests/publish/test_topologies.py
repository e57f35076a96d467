"""Chains of tiers, and the objects that Kueue, KAI and Koordinator read of them."""

from collections import Counter

from hypothesis import given

from tests.publish.forests import VENDOR, box, fly, forest, forests, group
from topo.model.forest import Forest
from topo.model.ids import DRAGONFLY, SCALE_OUT, SWITCHBOX, Kind
from topo.publish.node_labels import label_keys, node_labels
from topo.publish.topologies.chains import (
    HOSTNAME,
    MOST_CHAINS,
    MOST_TIERS,
    TierChain,
    all_chains,
    tier_chains,
)
from topo.publish.topologies.kai import kai_objects
from topo.publish.topologies.koordinator import koordinator_objects
from topo.publish.topologies.kueue import kueue_objects
from topo.publish.topologies.wanted import ObjectName

DOMAIN = "metax-tech.com"
KEYS = label_keys(DOMAIN, {})
FLY, BOX = f"{DOMAIN}/dragonfly", f"{DOMAIN}/switchbox"


def chains(of: Forest) -> tuple[TierChain, ...]:
    return tier_chains(of, KEYS, DOMAIN)


def test_the_vendors_forest_has_one_chain_from_the_switchbox_down() -> None:
    (chain,) = chains(VENDOR)
    assert chain == TierChain(
        name="supernode-switchbox-dragonfly",
        kinds=(SWITCHBOX, DRAGONFLY),
        labels=(BOX, FLY),
        nodes=8,
    )


def test_nodes_with_other_tiers_have_a_chain_of_their_own_and_the_most_nodes_come_first() -> None:
    mixed = forest(
        box("box-1", {"fly-1": ["a", "b"]}, ["c"]), fly("fly-9", ["d", "e", "f"]), unplaced=["g"]
    )
    assert [(each.name, each.nodes) for each in chains(mixed)] == [
        ("supernode-dragonfly", 3),
        ("supernode-switchbox-dragonfly", 2),
        ("supernode-switchbox", 1),
    ]


def test_a_forest_without_groups_has_no_chain() -> None:
    assert chains(forest(unplaced=["a"])) == ()


def test_a_label_under_another_name_makes_another_object_since_levels_never_change() -> None:
    renamed = label_keys(DOMAIN, {DRAGONFLY: "example.com/pair"})
    (chain,) = tier_chains(VENDOR, renamed, DOMAIN)
    assert chain.labels == (BOX, "example.com/pair")
    assert chain.name == "supernode-switchbox-dragonfly-96635aa3"


def test_a_kind_without_a_label_is_no_level_and_of_one_inside_itself_the_inner_counts() -> None:
    inner = group("in", SWITCHBOX, 1, fly("fly", ["a", "b"]).children)
    outer = group("out", SWITCHBOX, 3, [group("pod", Kind("pod"), 2, [inner])])
    (chain,) = chains(forest(outer))
    assert chain.labels == (BOX,)


def test_the_lowest_tiers_count_where_there_are_more_than_a_topology_takes() -> None:
    kinds = [Kind(f"tier-{each}") for each in range(MOST_TIERS + 3)]
    keys = label_keys(DOMAIN, {kind: f"example.com/{kind}" for kind in kinds})
    vertex = fly("fly", ["a", "b"])
    for tier, kind in enumerate(kinds, 2):
        vertex = group(kind, kind, tier, [vertex])
    (chain,) = tier_chains(forest(vertex), keys, DOMAIN)
    assert len(chain.labels) == MOST_TIERS
    assert chain.labels[-1] == FLY


@given(forests())
def test_a_chain_is_the_labels_of_its_nodes_and_names_are_of_one_list_of_labels(
    drawn: Forest,
) -> None:
    """The labels of the nodes are counted by another way: the nodes' own labels."""
    found = chains(drawn)
    labelled = Counter(frozenset(labels) for labels in node_labels(drawn, KEYS).values() if labels)
    assert {frozenset(each.labels): each.nodes for each in found} == labelled
    assert len({each.name for each in found}) == len(found) <= MOST_CHAINS
    assert [each.nodes for each in found] == sorted((each.nodes for each in found), reverse=True)


def test_kueue_gets_a_topology_down_to_the_node_and_a_flavor_that_names_it() -> None:
    name = "supernode-switchbox-dragonfly"
    assert kueue_objects(chains(VENDOR)) == {
        ObjectName("Topology", name): {
            "levels": [{"nodeLabel": BOX}, {"nodeLabel": FLY}, {"nodeLabel": HOSTNAME}]
        },
        ObjectName("ResourceFlavor", name): {
            "nodeLabels": {"kubernetes.io/os": "linux"},
            "topologyName": name,
        },
    }


def test_kai_gets_the_same_levels() -> None:
    ours = {name: spec for name, spec in kueue_objects(chains(VENDOR)).items() if "levels" in spec}
    assert kai_objects(chains(VENDOR)) == ours


def test_koordinator_gets_one_chain_of_layers_that_of_the_most_nodes() -> None:
    mixed = forest(*VENDOR.roots, fly("fly-9", ["a", "b"]))
    assert koordinator_objects(chains(mixed)) == {
        ObjectName("ClusterNetworkTopology", "default"): {
            "networkTopologySpec": [
                {"topologyLayer": "SwitchboxLayer", "labelKey": [BOX]},
                {
                    "topologyLayer": "DragonflyLayer",
                    "parentTopologyLayer": "SwitchboxLayer",
                    "labelKey": [FLY],
                },
                {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "DragonflyLayer"},
            ]
        }
    }
    assert koordinator_objects(()) == {}


@given(forests(), forests())
def test_chains_of_another_fabric_are_named_after_it_and_share_no_label_with_the_tree(
    tree: Forest, other: Forest
) -> None:
    found = all_chains(tree, KEYS, DOMAIN, {SCALE_OUT: other})
    of_tree = chains(tree)
    assert found[: len(of_tree)] == of_tree
    for here, alone in zip(found[len(of_tree) :], chains(other), strict=True):
        assert here.name == alone.name.replace("supernode-", "supernode-scale-out-", 1)
        assert here.labels == tuple(each.replace("/", "/scale-out-") for each in alone.labels)
        assert (here.kinds, here.nodes) == (alone.kinds, alone.nodes)
    assert len({each.name for each in found}) == len(found)
