"""An output with something around it is read exactly as the plain one, or refused."""

import json
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parse import prefixed, texts, variants
from tests.parse.answers import refused, understood
from tests.parse.prefixed import AROUND, BY_LINE
from tests.parse.test_any_text import SCRAPS, WHOLE
from tests.parse.test_matrix import hosts
from tests.parse.test_outputs import PIECES
from tests.parse.test_variants import OWN
from topo.facts import FORMATS, decode, parse, recognise
from topo.facts.outputs import outputs
from topo.facts.reading import prefixes
from topo.model.errors import Refusal

FOLDER = Path(__file__).resolve().parents[2].parent / "shared/data/probes"
FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file()) if FOLDER.is_dir() else []
OURS = OWN | PIECES | WHOLE
"""Every output that the tests of the parsers have."""
MATRIX = texts.tabbed(texts.islands(8, 4, inside="NV18")) + texts.nvidia_legend()
WITH_WHO = [k.name for k in prefixes.KINDS if "who" in k.pattern.groupindex]
NESTED_WHO = ("kubectl --prefix --timestamps", "compose -t", "pdsh of kubectl logs")
OF_TWO_HOSTS = pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(*pair, marks=[pytest.mark.deep] if number % 3 else [])
        for number, pair in enumerate(product((*WITH_WHO, *NESTED_WHO), OURS))
    ],
)
"""Each kind around a third of the outputs, and all of them in `make test-deep`."""


def test_every_kind_has_its_builder():
    """A kind that is added here is tried on every output."""
    assert [kind.name for kind in prefixes.KINDS] == list(BY_LINE)


@pytest.mark.parametrize("kind", prefixes.KINDS, ids=lambda kind: kind.name)
def test_the_example_of_the_documentation_is_of_its_kind(kind):
    """And the first kind that it fits is this one."""
    first = next(k for k in prefixes.KINDS if k.pattern.match(kind.example))
    assert first is kind
    match = kind.pattern.match(kind.example)
    assert match is not None
    assert match.end() == len(kind.example)


@pytest.mark.parametrize("around", AROUND)
def test_an_output_with_something_around_it_is_read_as_the_plain_one(around):
    """Facts, warnings, refusals: all the same."""
    for text in OURS.values():
        assert parse(AROUND[around](text)) == parse(text)
        assert recognise(AROUND[around](text)) == recognise(text)


@pytest.mark.skipif(not FILES, reason=f"no recorded outputs at {FOLDER}")
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_recorded_output_with_something_around_it_is_never_read_otherwise(path):
    """As the plain one, or refused."""
    text = decode(path.read_bytes())
    assert isinstance(text, str)
    whole = parse(text)
    for around in AROUND.values():
        found = parse(around(text))
        assert found == whole or isinstance(found, Refusal)


@pytest.mark.skipif(not FILES, reason=f"no recorded outputs at {FOLDER}")
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_nothing_comes_off_a_recorded_output(path):
    """What every line of an output begins with is its own."""
    text = decode(path.read_bytes())
    assert isinstance(text, str)
    assert prefixes.without(text) is text


def test_nothing_comes_off_an_output_of_ours():
    assert all(prefixes.without(text) is text for text in OURS.values())


@given(hosts(), st.sampled_from(sorted(AROUND)), st.sampled_from([texts.tabbed, texts.spaced]))
@settings(max_examples=100)
def test_any_matrix_with_something_around_it_is_the_same(host, around, form):
    assert parse(AROUND[around](form(host))) == parse(form(host))


@given(st.lists(st.sampled_from(SCRAPS), max_size=40).map("".join), st.sampled_from(sorted(AROUND)))
def test_any_scraps_with_something_around_them_are_answered(text, around):
    """Nothing is raised, whatever is in the JSON."""
    parse(AROUND[around](text))
    outputs(AROUND[around](text))


@pytest.mark.parametrize("around", AROUND)
def test_all_outputs_of_a_log_with_something_around_it_are_found(around):
    """Each with its lines of the text inside."""
    log = f"{PIECES['nvlink-status']}\n{PIECES['nvidia-smi-topo']}\n{PIECES['mx-smi-topo']}"
    assert outputs(AROUND[around](log)) == outputs(log)


@pytest.mark.parametrize("kind", BY_LINE)
def test_a_prefix_that_one_line_lacks_stays(kind):
    """Another program may have written the line, so the prefix stays on all lines."""
    lines = AROUND[kind](MATRIX).splitlines()
    for at in (0, 1, 3, 7):
        text = "\n".join([*lines[:at], MATRIX.splitlines()[at], *lines[at + 1 :]]) + "\n"
        assert prefixes.without(text) is text
        found = parse(text)
        assert found == parse(MATRIX) or isinstance(found, Refusal)


@pytest.mark.parametrize("kind", BY_LINE)
def test_blanks_at_the_ends_of_lines_may_be_gone(kind):
    """Of an empty line nothing is left but its prefix."""
    trimmed = "\n".join(line.rstrip() for line in AROUND[kind](MATRIX).split("\n"))
    assert parse(trimmed) == parse(MATRIX)


@OF_TWO_HOSTS
def test_the_lines_of_two_hosts_are_never_one_output(kind, name):
    """Equal outputs of two hosts would pass for one; the refusal says whose lines these are."""
    for text in prefixed.mixed(OURS[name], OURS[name], kind):
        for refusal in (refused(text), refused(json.dumps(text))):
            assert "lines of 2 hosts, tasks or services are mixed" in refusal.what
            assert refusal.fix == "give the lines of one of them"


@OF_TWO_HOSTS
def test_a_log_of_two_hosts_holds_their_outputs_or_is_refused_as_mixed(kind, name):
    """One after the other they may be told apart; a piece is never another machine."""
    by_line, by_host = prefixed.mixed(OURS[name], OURS[name], kind)
    found, apart = outputs(by_line), outputs(by_host)
    assert not isinstance(found, Refusal)
    assert not isinstance(apart, Refusal)
    (only,) = found
    assert isinstance(only.answer, Refusal)
    assert "lines of 2 hosts" in only.answer.what
    for answer in (output.answer for output in apart):
        if isinstance(answer, Refusal):
            assert "lines of 2 hosts" in answer.what
        else:
            assert answer == parse(OURS[name])


@pytest.mark.parametrize("name", OURS)
def test_a_format_that_is_asked_for_is_not_read_from_two_hosts(name):
    """The master asks for the format that a worker or a person names."""
    found = recognise(OURS[name])
    if found not in FORMATS or found == "nodegroup":
        return
    for text in prefixed.mixed(OURS[name], OURS[name], "`pdsh`, `clush`"):
        assert "lines of 2 hosts" in refused(text, found).what


def test_a_port_that_is_down_on_the_other_host_is_not_up_here():
    """Both hosts call it mlx5_0, and the first line of a path counts."""
    state = "/sys/class/infiniband/mlx5_0/ports/1/state"
    refusal = refused(f"node-1: {state}: 4: ACTIVE\nnode-2: {state}: 1: DOWN\n")
    assert "(node-1, node-2)" in refusal.what


def test_the_lines_of_a_hundred_hosts_are_told_apart_as_far_as_needed():
    """One line of each is enough; behind the 64th source none is looked at."""
    state = "/sys/class/infiniband/mlx5_0/ports/1/state: 4: ACTIVE"
    text = "".join(f"node-{n}: {state}\n" for n in range(100))
    assert len(prefixes.sources(text)) == prefixes.MOST_SOURCES
    assert "lines of 64 or more hosts" in refused(text).what
    log = "".join(f"word{n}: nothing to see\n" for n in range(100))
    assert "in no format" in refused(log).what


def test_complaints_of_several_hosts_are_explained():
    """What the tool says is the more useful answer."""
    words = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    assert parse(f"node-1: {words}\nnode-2: {words}\n") == parse(f"{words}\n")


def test_the_keys_of_a_document_are_no_hosts():
    """`group:` on each line would be one, and what follows it a document."""
    document = 'name: d\nkind: dragonfly\nchild: [{"name": "n1", "kind": "node"}]\n'
    assert "mixed" not in refused(document).what


def test_a_tool_that_is_not_read_is_named_below_a_prefix():
    """As without it."""
    matrix = "       GPU0   GPU1\nGPU0   0      XGMI\nGPU1   XGMI   0\n"
    assert "(rocm-smi)" in refused(AROUND["`pdsh`, `clush`"](matrix)).what


def test_a_line_that_the_cri_wrote_in_parts_is_refused():
    """Whoever drops blanks at the ends of lines changes what the parts say together."""
    head = "2026-05-06T07:08:09.000000001Z stdout"
    parts = (f"{head} P {line[:20]}\n{head} F {line[20:]}\n" for line in MATRIX.splitlines())
    assert isinstance(parse("".join(parts)), Refusal)


@pytest.mark.parametrize("around", BY_LINE)
@pytest.mark.parametrize("change", variants.WHITE_SPACE)
def test_other_white_space_around_and_inside_says_the_same(change, around):
    """Tabs that a terminal expanded behind the prefix, trimmed and padded lines, colours, CRLF."""
    for text in OURS.values():
        found = parse(change(AROUND[around](text)))
        assert isinstance(found, Refusal) or found.facts == understood(text).facts


def test_nothing_comes_off_a_document_that_is_asked_for():
    """A nodegroup.yaml that somebody quoted is a mistake, and the master must say so."""
    document = "group:\n- {name: d, kind: dragonfly, child: [n1, n2]}\n"
    quoted = AROUND["quotation"](document)
    assert isinstance(parse(quoted, "nodegroup"), Refusal)
    assert parse(quoted) == parse(document)


@pytest.mark.parametrize("text", [
    '"unclosed', '"no lines"', '{"stdout": 3}', '{"log": "x"}', '["a\\nb"]', "{" * 10_000,
    '{"stdout": "a\\nb", "output": "c\\nd"}', "a\\qb\\nc",
])  # fmt: skip
def test_json_without_an_output_in_it_is_left_alone(text):
    assert isinstance(parse(text), Refusal)
