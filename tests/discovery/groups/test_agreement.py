"""Groups of several sources: which confirm each other, and which no hierarchy can both have."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from topo.discovery.groups.agreement import Agreement, Disagreement
from topo.model.forest import Path, PathGroup
from topo.model.ids import GroupName, GroupPath, Kind, NodeName, SourceName
from topo.model.observation import CLUSTER_MANAGER, CLUSTER_NODES, CONFIG_FILE, WORKERS

NAMES = [NodeName(f"n{i}") for i in range(8)]
Shown = dict[tuple[str, ...], tuple[SourceName, set[NodeName]]]
Stated = dict[tuple[SourceName, tuple[str, ...]], set[NodeName]]
WRITING = (CONFIG_FILE, CLUSTER_MANAGER, CLUSTER_NODES)
MEASURING = frozenset({WORKERS})


def path(source: SourceName, *names: str) -> Path:
    """A path of groups that one source states."""
    return tuple(PathGroup(Kind("rack"), name, GroupName(name), source) for name in names)


def compared(shown: dict[str, str], labels: dict[str, str]) -> Agreement:
    """The file's groups as shown, beside those of labels; `a/b` is b in a, "" nothing."""
    found = Agreement(MEASURING)
    for node in {**shown, **labels}:
        stated = {
            source: tuple(groups[node].split("/"))
            for source, groups in ((CONFIG_FILE, shown), (CLUSTER_NODES, labels))
            if groups.get(node)
        }
        names = shown.get(node, "").split("/") if shown.get(node) else []
        found.put(NodeName(node), path(CONFIG_FILE, *names), stated)
    found.settle()
    found.validate()
    return found


def told(found: Agreement) -> dict[str, list[str]]:
    """By shown group the nodes that stand elsewhere by the other source."""
    return {"/".join(each.path): sorted(each.nodes) for each in found.disagreements}


PAIRS = {"a": "box/d1", "b": "box/d1", "c": "box/d2", "d": "box/d2"}
"""The vendor's shape: two dragonflies of two nodes in a switchbox."""


def test_equal_groups_confirm_each_other_whatever_they_are_called():
    """Every level for itself: labels that have no level above confirm the inner groups alone."""
    found = compared(PAIRS, {"a": "r/x", "b": "r/x", "c": "r/y", "d": "r/y"})
    assert {"/".join(each): by for each, by in found.confirmed.items()} == {
        "box": (CLUSTER_NODES,),
        "box/d1": (CLUSTER_NODES,),
        "box/d2": (CLUSTER_NODES,),
    }
    assert found.disagreements == ()
    flat = compared(PAIRS, {"a": "x", "b": "x", "c": "y", "d": "z"})
    assert {"/".join(each) for each in flat.confirmed} == {"box/d1"}


def test_a_node_that_the_other_source_puts_among_others_is_told_alone():
    """Seven of eight agree: the eighth stands wrong, in either source."""
    shown = {f"n{i}": "d1" if i < 4 else "d2" for i in range(8)}
    labels = {f"n{i}": "x" if i < 5 else "y" for i in range(8)}
    found = compared(shown, labels)
    assert told(found) == {"d2": ["n4"]}
    (only,) = found.disagreements
    assert only == Disagreement(
        GroupPath((GroupName("d2"),)),
        CONFIG_FILE,
        CLUSTER_NODES,
        frozenset({NodeName("n4")}),
        (("x",),),
    )


def test_pairs_that_are_exchanged_are_told_of_both_groups():
    """Neither half of a pair is more right than the other."""
    found = compared(PAIRS, {"a": "x", "c": "x", "b": "y", "d": "y"})
    assert told(found) == {"box/d1": ["a", "b"], "box/d2": ["c", "d"]}


def test_finer_and_coarser_groups_and_nodes_of_one_source_alone_contradict_nobody():
    """A hierarchy has room for all of them; silence confirms nothing either."""
    coarser = compared(PAIRS, dict.fromkeys("abcd", "x"))
    finer = compared(dict.fromkeys("abcd", "d1"), {"a": "x", "b": "x", "c": "y", "d": "y"})
    silent = compared(PAIRS, {"a": "x", "d": "y"})
    assert [told(each) for each in (coarser, finer, silent)] == [{}, {}, {}]
    assert silent.confirmed == {}


def test_a_majority_that_crosses_nothing_else_is_told_rather_than_nothing():
    """d1 lacks n3 in x and has n4 there, whose own group the labels know nothing else of."""
    shown = {"n0": "d1", "n1": "d1", "n2": "d1", "n3": "d1", "n4": "d2"}
    labels = {"n0": "x", "n1": "x", "n2": "x", "n3": "y", "n4": "x"}
    assert told(compared(shown, labels)) == {"d1": ["n0", "n1", "n2"]}


def test_what_is_measured_is_confirmed_and_never_called_a_disagreement():
    """Cables and labels that differ are a conflict of the wiring, which is found there."""
    found = Agreement(MEASURING)
    for node, dragonfly, label in (("a", "f1", "x"), ("b", "f1", "x"), ("c", "f2", "x")):
        found.put(
            NodeName(node),
            path(CLUSTER_MANAGER, "box") + path(WORKERS, dragonfly),
            {CLUSTER_NODES: (label,), WORKERS: (dragonfly,)},
        )
    found.settle()
    assert found.confirmed == {GroupPath((GroupName("box"),)): (CLUSTER_NODES,)}
    assert found.disagreements == ()


_levels = st.lists(st.sampled_from("xy"), max_size=2).map(tuple)
_statements = st.fixed_dictionaries(dict.fromkeys((*WRITING, WORKERS), _levels))
_moves = st.lists(st.tuples(st.sampled_from(NAMES), _statements), max_size=30)


@given(_moves, st.permutations(WRITING), st.lists(st.booleans(), max_size=30))
def test_verdicts_are_those_of_the_sets_after_any_moves(moves, order, pauses):
    """Compared with the definition: equal sets confirm, crossing sets of two writers are told."""
    found = Agreement(MEASURING)
    state: dict[NodeName, dict[SourceName, tuple[str, ...]]] = {}
    for at, (node, stated) in enumerate(moves):
        state[node] = stated
        followed = next((s for s in order if stated[s]), WORKERS)
        groups = {source: keys for source, keys in stated.items() if keys}
        found.put(node, path(followed, *(f"{followed}-{k}" for k in stated[followed])), groups)
        if pauses[at : at + 1] != [True]:
            found.settle()
    found.settle()
    found.validate()
    shown, groups = sets_of(state, order)
    assert found.confirmed == confirmed_by_sets(shown, groups)
    crossing = crossing_nodes(shown, groups)
    for each in found.disagreements:
        assert each.nodes <= crossing[each.followed, each.other]
    assert {(each.followed, each.other) for each in found.disagreements} == crossing.keys()


def sets_of(state, order):
    """By shown group its source and nodes; by stated group its nodes."""
    shown: Shown = {}
    groups: Stated = {}
    for node, stated in state.items():
        followed = next((s for s in order if stated[s]), WORKERS)
        for depth in range(len(stated[followed])):
            names = tuple(f"{followed}-{k}" for k in stated[followed][: depth + 1])
            shown.setdefault(names, (followed, set()))[1].add(node)
        for source, keys in stated.items():
            for depth in range(len(keys)):
                groups.setdefault((source, keys[: depth + 1]), set()).add(node)
    return shown, groups


def confirmed_by_sets(shown, groups):
    """By shown group the other sources with a group of the same nodes."""
    found: dict[tuple[str, ...], tuple[SourceName, ...]] = {}
    for names, (followed, nodes) in shown.items():
        by = {s for (s, _), others in groups.items() if s != followed and others == nodes}
        if by and len(nodes) > 1:
            found[names] = tuple(sorted(by))
    return found


def crossing_nodes(shown, groups):
    """By pair of sources the nodes in parts of groups that cross."""
    placed: dict[SourceName, set[NodeName]] = {}
    for (source, _), nodes in groups.items():
        placed.setdefault(source, set()).update(nodes)
    shown_by: dict[SourceName, set[NodeName]] = {}
    for followed, nodes in shown.values():
        shown_by.setdefault(followed, set()).update(nodes)
    found: dict[tuple[SourceName, SourceName], set[NodeName]] = {}
    for (followed, nodes), ((other, _), others) in product(shown.values(), groups.items()):
        if WORKERS in (followed, other) or followed == other:
            continue
        both = placed[other] & shown_by[followed]
        one, two = nodes & both, others & both
        if one & two and one - two and two - one:
            found.setdefault((followed, other), set()).update(one & two)
    return found
