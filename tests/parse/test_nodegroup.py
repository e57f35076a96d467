"""`nodegroup.yaml`: what is accepted, and what each mistake is answered with."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.parse.answers import items, refused, understood
from topo.facts import parse
from topo.facts.declared import documents
from topo.facts.reading.text import MAX_BYTES
from topo.model.errors import Refusal
from topo.model.forest import Status
from topo.model.ids import GroupName, Kind, NodeName
from topo.model.observation import DeclaredForest, DeclaredGroup, DeclaredNode

DOCUMENT = [
    {
        "name": "switchbox-1",
        "kind": "switchbox",
        "child": [
            {
                "name": f"dragonfly-{fly}",
                "kind": "dragonfly",
                "child": [
                    {"name": f"node-{fly}{i}", "kind": "node", "status": "Ready"} for i in (1, 2)
                ],
                "status": "Ready",
            }
            for fly in ("a", "b")
        ],
        "status": "NotReady",
    }
]


def forest(text: str) -> DeclaredForest:
    (found,) = items(understood(text, "nodegroup"), DeclaredForest)
    return found


def node(name: str, status: Status | None = None) -> DeclaredNode:
    return DeclaredNode(NodeName(name), status)


def group(name: str, kind: str, *children: Any, status: Status | None = None) -> DeclaredGroup:
    return DeclaredGroup(GroupName(name), Kind(kind), children, status)


EXPECTED = DeclaredForest(
    (
        group(
            "switchbox-1",
            "switchbox",
            *(
                group(
                    f"dragonfly-{fly}",
                    "dragonfly",
                    node(f"node-{fly}1", Status.READY),
                    node(f"node-{fly}2", Status.READY),
                    status=Status.READY,
                )
                for fly in ("a", "b")
            ),
            status=Status.NOT_READY,
        ),
    )
)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(DOCUMENT),
        json.dumps(DOCUMENT, indent="\t"),
        json.dumps({"group": DOCUMENT}, indent=1),
        yaml.safe_dump({"group": DOCUMENT}),
        yaml.safe_dump(DOCUMENT, default_flow_style=True),
        "# ours\n---\n"
        + yaml.safe_dump({"group": DOCUMENT}, sort_keys=False).replace("\n", "\r\n"),
        "\ufeff" + yaml.safe_dump(DOCUMENT),
    ],
)
def test_the_document_is_read_as_yaml_and_as_json(text):
    """Bare as `/node_group` prints it, or under `group`."""
    assert forest(text) == EXPECTED


@pytest.mark.parametrize("text", ["group:", "group: []", "[]", "group: null", '{"group": null}'])
def test_an_empty_group_is_an_empty_forest(text):
    """The chart's default body."""
    assert forest(text) == DeclaredForest()


def test_children_may_be_bare_node_names():
    """At the root they are nodes in no group."""
    text = "group:\n- {name: d, kind: leaf, child: [n1, n2]}\n- n3\n- {name: n4, kind: node}\n"
    assert forest(text) == DeclaredForest(
        (group("d", "leaf", node("n1"), node("n2")), node("n3"), node("n4"))
    )


def test_one_name_under_two_parents_is_two_groups():
    """Identity is the path."""
    text = (
        "- {name: a, kind: switchbox, child: [{name: left, kind: dragonfly, child: [n1]}]}\n"
        "- {name: b, kind: switchbox, child: [{name: left, kind: dragonfly, child: [n2]}]}\n"
    )
    assert len(forest(text).roots) == 2


def test_names_of_groups_may_be_any_words():
    """Managers name racks in the language of their operators."""
    assert forest("- {name: 机柜 7, kind: leaf, child: []}\n").roots[0].name == "机柜 7"


D = "- {name: d, kind: dragonfly, child: [n1]}\n"
INSIDE = (
    "- {name: a, kind: leaf, child: [{name: b, kind: leaf, child: "
    "[{name: a, kind: leaf, child: []}]}]}\n"
)
MISTAKES = {
    "unknown key at the top": ("groups:\n- n1\n", "'groups'", "line 1", "did you mean group?"),
    "unrelated key at the top": ("a: 1\n", "'a'", "line 1", "only key at the top"),
    "no group key": ("{}", "group is missing", "the whole text", "write `group:`"),
    "a number": ("12", "a number (12)", "the whole text", "write `group:`"),
    "a word": ("hello", "text (hello)", "the whole text", "write `group:`"),
    "group is no list": ("group: {name: a}\n", "a mapping, not a list", "group", "put `- `"),
    "misspelt key": (
        "group:\n- name: a\n  knid: node\n",
        "'knid'",
        "group[0] (line 3)",
        "did you mean kind?",
    ),
    "foreign key": (
        "- {name: a, zone: 1}\n",
        "'zone'",
        "[0] (line 1)",
        "name, kind, child, status",
    ),
    "no kind": ("- name: a\n", "key kind is missing", "[0] (line 1)", "write kind"),
    "no name": ("- kind: node\n", "key name is missing", "[0] (line 1)", "write name"),
    "kind in capitals": (
        "- {name: a, kind: Node}\n",
        "'Node' is not a kind",
        "[0].kind (line 1)",
        "did you mean node?",
    ),
    "kind is no word": ("- {name: a, kind: a b}\n", "'a b'", "[0].kind (line 1)", "lower-case"),
    "status in small letters": (
        "- {name: a, kind: node, status: ready}\n",
        "text (ready)",
        "[0].status (line 1)",
        "did you mean Ready?",
    ),
    "status is a truth value": (
        "- {name: a, kind: node, status: yes}\n",
        "a truth value (yes)",
        "[0].status (line 1)",
        "Ready or NotReady",
    ),
    "node with children": (
        "- {name: a, kind: node, child: [b]}\n",
        "node a has children",
        "[0].child (line 1)",
        "another kind",
    ),
    "group without child": (
        "- {name: a, kind: leaf}\n",
        "has no child",
        "[0] (line 1)",
        "child: []",
    ),
    "number as a name": (
        "- name: 12\n  kind: node\n",
        "a number (12)",
        "[0].name (line 1)",
        'name: "12"',
    ),
    "date as a name": ("- {name: 2024-01-01, kind: node}\n", "a date", "[0].name", "in quotes"),
    "truth value as a name": ("- on\n", "a truth value (on)", "[0] (line 1)", "in quotes"),
    "number in JSON": (
        '[{"name": 1.5, "kind": "node"}]',
        "a number (1.5)",
        "[0].name (line 1)",
        '"1.5"',
    ),
    "truth value in JSON": ("[true]", "a truth value (true)", "[0] (line 1)", "in quotes"),
    "empty name": (
        '- {name: "", kind: node}\n',
        "name is empty",
        "[0].name (line 1)",
        "write a text",
    ),
    "nothing as a child": ("group:\n-\n", "a child is empty", "group[0] (line 2)", "node's name"),
    "a list as a child": ("- [n1]\n", "a child is a list", "[0] (line 1)", "node's name"),
    "space in a node's name": ("- a b\n", "'a b' is not a node name", "[0] (line 1)", "letters"),
    "long node name": (f"- {'a' * 254}\n", "is not a node name", "[0] (line 1)", "253"),
    "slash in a group's name": (
        "- {name: a/b, kind: leaf, child: []}\n",
        "'a/b' is not a group name",
        "[0].name (line 1)",
        "no `/`",
    ),
    "lone surrogate in a group's name": (
        '{"group": [{"name": "box\\ud800", "kind": "leaf", "child": []}]}',
        r"'box\ud800' is not a group name",
        "group[0].name",
        "printable",
    ),
    "control character in a group's name": (
        '- {name: "a\\x9bb", kind: leaf, child: []}\n',
        r"'a\x9bb' is not a group name",
        "[0].name (line 1)",
        "printable",
    ),
    "lone surrogate as a status": (
        '[{"name": "a", "kind": "node", "status": "\\udfff\\u0007"}]',
        r"text (\udfff\x07)",
        "[0].status",
        "Ready",
    ),
    "lone surrogate as a kind": (
        '[{"name": "a", "kind": "\\ud800", "child": []}]',
        r"'\ud800' is not a kind",
        "[0].kind",
        "lower-case",
    ),
    "lone surrogate as a key": (
        '[{"name": "a", "kind": "node", "\\ud800": 1}]',
        r"unknown key '\ud800'",
        "[0]",
        "name, kind",
    ),
    "node in two groups": (
        D + D.replace("name: d", "name: e"),
        "node n1 stands in two groups",
        "[1].child[0] (line 2)",
        "the other is [0].child[0] (line 1)",
    ),
    "node in and beside a group": (D + "- n1\n", "two groups", "[1] (line 2)", "[0].child[0]"),
    "equal siblings": (
        D + D.replace("n1", "n2"),
        "d stands twice under one parent",
        "[1]",
        "the other is [0]",
    ),
    "equal nodes": ("- n1\n- n1\n", "n1 stands twice", "[1] (line 2)", "the other is [0] (line 1)"),
    "group inside itself": (
        INSIDE,
        "inside itself: a/b/a",
        "[0].child[0].child[0].name (line 1)",
        "rename",
    ),
    "alias": ("a: &x [1]\nb: *x\n", "the anchor &x", "line 1", "write the content out"),
    "alias alone": ("group: *x\n", "the alias *x", "line 1", "write the content out"),
    "tag": ("group: !!python/object:os.system []\n", "the tag", "line 1", "leave the tag out"),
    "merge key": ("- {<<: {name: a}}\n", "a merge key", "line 1", "plain words"),
    "list as a key": ("? [a]\n: b\n", "a key is a list", "line 1", "plain words"),
    "doubled key": ("group: []\ngroup: []\n", "'group' stands twice", "line 2", "line 1"),
    "doubled key in JSON": ('{"group": [],\n"group": []}', "stands twice", "line 2", "line 1"),
    "doubled key in JSON with tabs": (
        '{\t"group": [],\n\t"group": []}',
        "twice",
        "the JSON",
        "keep one",
    ),
    "two documents": (
        "group: []\n---\ngroup: []\n",
        "second document",
        "line 2",
        "remove the `---`",
    ),
    "tab": ("group:\n\t- n1\n", "no YAML", "line 2", "spaces, not tabs"),
    "wrong indent": ("group:\n  - name: a\n   kind: b\n", "no YAML", "line 3", "mend"),
    "control character": ("group: [\x01]\n", "no YAML", "the whole text", "UTF-8"),
    "broken JSON with tabs": ('{\n\t"group": [\n', "no JSON", "line 3", "mend the JSON"),
    "bytes that are no UTF-8": ("group:\n- \ufffd\n", "not valid UTF-8", "line 2", "UTF-8"),
    "deep nesting": ("[" * 101, "nesting is deeper than 100", "line 1", "flatten"),
    "bottomless JSON": ("[" * 100_000, "nesting", "line 1", "flatten"),
    "empty text": (" \n", "the text is empty", "line 1", ""),
}


@pytest.mark.parametrize(("text", "what", "where", "fix"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_answered_with_what_where_and_the_fix(text, what, where, fix):
    """Nothing is accepted that nobody meant."""
    refusal = refused(text, "nodegroup")
    assert what in refusal.what
    assert refusal.where.startswith(where)
    assert fix in refusal.fix


def test_groups_nest_sixteen_deep_and_no_deeper():
    """More is a mistake of a generator."""

    def nested(depth: int) -> Any:
        child: Any = []
        for level in range(depth):
            child = [{"name": f"g{level}", "kind": "leaf", "child": child}]
        return child

    assert len(forest(json.dumps(nested(16))).roots) == 1
    assert "deeper than 16" in refused(json.dumps(nested(17)), "nodegroup").what


def test_a_kind_near_a_known_one_is_taken_and_doubted():
    """Kinds are open; a slip of the pen is likelier than a new one."""
    found = understood("group:\n- {name: a, kind: dragonfy, child: []}\n")
    assert "did you mean dragonfly?" in found.warnings[0]
    assert understood("group:\n- {name: a, kind: rail, child: []}\n").warnings == ()


def test_ten_megabytes_are_the_limit():
    """One byte more is refused unread."""
    assert "more than the" in refused("#" + " " * MAX_BYTES, "nodegroup").what


@pytest.mark.parametrize("render", [json.dumps, yaml.safe_dump])
def test_thousands_of_nodes_are_read(render):
    """Ten thousand in JSON or YAML are a second's work; here two thousand."""
    big = [
        {"name": f"d{i}", "kind": "dragonfly", "child": [f"n{i}-{j}" for j in range(4)]}
        for i in range(500)
    ]
    roots = forest(render(big)).roots
    assert sum(len(root.children) for root in roots if isinstance(root, DeclaredGroup)) == 2000


names = st.from_regex(r"[a-z][a-z0-9-]{0,10}[a-z0-9]", fullmatch=True)
statuses = st.sampled_from([None, "Ready", "NotReady"])


@st.composite
def documents_and_forests(draw) -> tuple[list[Any], DeclaredForest]:
    """A random document with all names different, and the forest it states."""
    count = iter(range(10**6))

    def child(depth: int) -> tuple[Any, Any]:
        name, status = f"{draw(names)}-{next(count)}", draw(statuses)
        stated = {} if status is None else {"status": status}
        told = None if status is None else Status(status)
        if depth == 0 or draw(st.booleans()):
            if status is None and draw(st.booleans()):
                return name, node(name)
            return {"name": name, "kind": "node", **stated}, node(name, told)
        kind = draw(st.sampled_from(["dragonfly", "switchbox", "rail"]))
        pairs = [child(depth - 1) for _ in range(draw(st.integers(0, 3)))]
        written = {"name": name, "kind": kind, "child": [p[0] for p in pairs], **stated}
        return written, group(name, kind, *(p[1] for p in pairs), status=told)

    pairs = [child(3) for _ in range(draw(st.integers(0, 3)))]
    return [p[0] for p in pairs], DeclaredForest(tuple(p[1] for p in pairs))


@given(documents_and_forests(), st.sampled_from([json.dumps, yaml.safe_dump]), st.booleans())
def test_what_is_written_is_what_is_read(pair, render, under_key):
    """Order, kinds, statuses; in YAML and JSON; bare and under the key."""
    document, expected = pair
    assert forest(render({"group": document} if under_key else document)) == expected


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["group", "name", "kind", "child", "x"]), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(values, st.sampled_from([json.dumps, yaml.safe_dump]))
def test_any_value_is_read_or_refused(value, render):
    """Nothing is raised, whatever the document is made of."""
    found = parse(render(value), "nodegroup")
    assert isinstance(found, Refusal) or items(found, DeclaredForest)


any_text = st.text(st.characters() | st.characters(categories=["Cs", "Cc", "Cf"]), max_size=6)


@given(st.fixed_dictionaries({"name": any_text, "kind": any_text | st.just("leaf")}), any_text)
def test_whatever_is_answered_can_be_written(item, status):
    """To a log, a state file and the document: lone surrogates of JSON end at this door."""
    found = parse(json.dumps([{**item, "child": [], "status": status}, "n1"]), "nodegroup")
    told = (
        str(found) if isinstance(found, Refusal) else items(found, DeclaredForest)[0].roots[0].name
    )
    assert told.encode().decode() == told


@given(st.text())
def test_any_text_is_read_or_refused(text):
    """The same for what is no document at all."""
    found = parse(text, "nodegroup")
    assert isinstance(found, Refusal) or items(found, DeclaredForest)


plain = st.recursive(
    st.none() | st.integers() | st.text("abc xyz", min_size=1),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4)
    ),
)


@given(st.lists(plain))
def test_json_means_the_same_to_both_readers(value):
    """The fast way and the way with lines differ in nothing but the lines."""
    text = json.dumps(value)
    assert documents.load(text) == documents.load_lined(text)
