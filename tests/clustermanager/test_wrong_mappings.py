"""Every way to get a mapping file wrong is refused, with the place in it."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.sources.cluster_manager.mapping import load_mapping, parse_yaml
from tests.clustermanager.mappings import INVENTORY, LOGIN_MAPPING, MAPPING
from tests.support.answers import bent
from topo.discovery.manager.contract import ManagerAnswer
from topo.discovery.manager.expressions import AnswerValue, Expression
from topo.discovery.manager.mapping import (
    contract,
    read_mapping,
    understand_events,
    understand_topology,
)
from topo.discovery.manager.rules import ManagerMapping
from topo.discovery.manager.translation import map_health
from topo.model.errors import BadInputError, Refusal

LINKS = {"path": "/ufmRest/resources/links", "format": "ufm-links"}


def changed(change: Callable[[dict[str, Any]], object], base: dict[str, Any] = MAPPING) -> Any:
    """A copy of a mapping with one thing changed."""
    document = copy.deepcopy(base)
    change(document)
    return document


def rack(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["topology"]["groups"][0]
    return found


def host(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = rack(document)["machines"][0]
    return found


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "at the document"),
        (changed(lambda d: d.update(version=2)), "at version"),
        (changed(lambda d: d.update(topologie={})), "did you mean 'topology'?"),
        (changed(lambda d: d.update(zzz={})), "the keys here are version, auth"),
        (changed(lambda d: d.pop("sample")), "at sample"),
        (changed(lambda d: d["auth"].update(kind="basik")), "did you mean 'basic'?"),
        (changed(lambda d: d["auth"].update(user="x")), "at auth.basic"),
        (changed(lambda d: d["topology"].update(path="api")), "at topology.path"),
        (changed(lambda d: d.pop("topology")), "there is no topology: nothing is read"),
        (changed(lambda d: d.update(fabric={"path": "/f", "format": "ufm-link"})), "'ufm-links'?"),
        (changed(lambda d: d.update(fabric=LINKS)), "tried on sample.fabric: there is no such"),
        (
            changed(lambda d: d.update(fabric=LINKS, sample={**d["sample"], "fabric": []})),
            "no link of a switch",
        ),
        (changed(lambda d: d["topology"].update(path="//other.host/x")), "not a plain path"),
        (changed(lambda d: d["topology"].update(path="/a/../b")), "not a plain path"),
        (changed(lambda d: d["topology"].update(path="/a?b=c")), "not a plain path"),
        (changed(lambda d: rack(d).update(each="data.racks[")), "is not JMESPath"),
        (changed(lambda d: rack(d).update(each="data.rack[]")), "the nearest is 'data'"),
        (changed(lambda d: rack(d).update(each="data")), "where a list is expected"),
        (changed(lambda d: rack(d).update(name=3)), "is a text"),
        (changed(lambda d: rack(d).update(name="lable")), "the nearest is 'label'"),
        (changed(lambda d: rack(d).update(kind="switchbox")), "\"'switchbox'\""),
        (changed(lambda d: rack(d).update(kind="'Switch Box'")), "groups[0].kind"),
        (changed(lambda d: rack(d).update(name="length(nothing)")), "failed: length() does not"),
        (changed(lambda d: rack(d).update(name="label && hosts[::0]")), "failed: "),
        (changed(lambda d: rack(d).update(name="(" * 500 + "label" + ")" * 500)), "too deeply"),
        (changed(lambda d: rack(d).update(name="hosts")), "yielded a list of 1 where a text"),
        (changed(lambda d: host(d).update(id="smbios")), "where a text is expected"),
        (changed(lambda d: host(d).update(status="power")), "'Ready', 'NotReady' or nothing"),
        (changed(lambda d: host(d)["names"].update(hostname="fqdn")), "finds nothing anywhere"),
        (changed(lambda d: host(d)["names"].update(host_name="name")), "did you mean 'hostname'?"),
        (changed(lambda d: host(d).update(each="servers[]")), "finds nothing anywhere"),
        (changed(lambda d: d["health"].update(ok="state")), "where true or false is expected"),
        (changed(lambda d: d["health"].update(detail="@")), "health.detail"),
        (changed(lambda d: d["sample"].pop("health")), "tried on sample.health"),
        (changed(lambda d: d["sample"].update(topology=[])), "it is asked of"),
        (
            changed(lambda d: d["sample"].update(topology={"data": {"racks": [], "spares": []}})),
            "no m",
        ),
    ],
)
def test_a_wrong_mapping_is_refused_with_the_expression_and_what_it_yielded(
    document: object, words: str
) -> None:
    refusal = read_mapping(document)
    assert isinstance(refusal, Refusal)
    assert words in str(refusal)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (changed(lambda d: d["sample"].pop("login"), LOGIN_MAPPING), "tried on sample.login"),
        (changed(lambda d: d.pop("topology"), LOGIN_MAPPING), "events continue a topology"),
        (changed(lambda d: d["sample"].pop("events"), LOGIN_MAPPING), "tried on sample.events"),
        (changed(lambda d: d["topology"].pop("cursor"), LOGIN_MAPPING), "this one has none"),
        (changed(lambda d: d["auth"].update(token="session"), LOGIN_MAPPING), "yielded no token"),
        (changed(lambda d: d["auth"].update(token="sum(session)"), LOGIN_MAPPING), "failed on"),
        (
            changed(lambda d: d["auth"].update(expires_in_s="session.key"), LOGIN_MAPPING),
            "yielded no seconds",
        ),
        (changed(lambda d: d["events"].update(cursor="nothing"), LOGIN_MAPPING), "events.cursor"),
        (changed(lambda d: d["sample"].update(events_asked="3"), LOGIN_MAPPING), "a gap"),
    ],
)
def test_a_wrong_mapping_of_login_or_events_is_refused(document: object, words: str) -> None:
    refusal = read_mapping(document)
    assert isinstance(refusal, Refusal)
    assert words in str(refusal)
    assert "example" not in str(refusal)


def test_groups_in_groups_are_known_by_their_path_where_they_have_no_id() -> None:
    """Equal rack names in two rows stay two racks."""
    rows = [{"n": row, "racks": [{"n": "r1", "hosts": [{"s": f"{row}1"}]}]} for row in "AB"]
    mapping = read_mapping(
        {
            "version": 1,
            "auth": {"kind": "basic"},
            "topology": {
                "path": "/x",
                "groups": [
                    {
                        "each": "rows",
                        "name": "n",
                        "kind": "'row'",
                        "groups": [
                            {
                                "each": "racks",
                                "name": "n",
                                "kind": "'switchbox'",
                                "machines": [
                                    {"each": "hosts", "id": "s", "names": {"hostname": "s"}}
                                ],
                            }
                        ],
                    }
                ],
            },
            "sample": {"topology": {"rows": rows}},
        }
    )
    assert isinstance(mapping, ManagerMapping)
    assert mapping.topology is not None
    answer = understand_topology(mapping.topology, {"rows": [*rows, {"n": "C", "racks": None}]})
    assert isinstance(answer, ManagerAnswer)
    assert [g.id for g in answer.topology.groups] == ["A", "A/r1", "B", "B/r1", "C"]
    assert {m.id: m.group_id for m in answer.topology.machines} == {"A1": "A/r1", "B1": "B/r1"}


def test_a_live_answer_that_no_longer_fits_is_refused_by_its_expression() -> None:
    mapping = read_mapping(MAPPING)
    assert isinstance(mapping, ManagerMapping)
    assert mapping.topology is not None
    renamed = json.loads(json.dumps(INVENTORY).replace('"serial"', '"serial_number"'))
    refusal = understand_topology(mapping.topology, renamed)
    assert isinstance(refusal, Refusal)
    assert "`serial` yielded nothing" in refusal.what
    assert "(element 0)" in refusal.where
    assert "the nearest is 'serial_number'" in refusal.fix


DEEP: Any = orjson.loads("[" * 1000 + "]" * 1000)


@pytest.mark.parametrize(
    ("understand", "words"),
    [
        (lambda m: understand_topology(m.topology, {"machines": DEEP}), "groups"),
        (
            lambda m: understand_topology(
                m.topology, {"groups": [], "machines": [{"id": "m", "status": DEEP}]}
            ),
            "machines[0].status",
        ),
        (lambda m: understand_events(m.events, {"cursor": DEEP, "events": []}, "c"), "a list of 1"),
        (lambda m: map_health(m.health, {"status": "bad", "detail": DEEP}), "a list of 1"),
    ],
)
def test_an_answer_nested_a_thousand_deep_is_refused(
    understand: Callable[[ManagerMapping], object], words: str
) -> None:
    refusal = understand(contract())
    assert isinstance(refusal, Refusal)
    assert words in str(refusal)


@pytest.mark.parametrize(
    "call", ["abs(@)", "contains('text', @)", "@ == @ && abs(@)", "to_array(@)"]
)
def test_an_expression_that_fails_on_a_deep_value_shows_none_of_it(call: str) -> None:
    with pytest.raises(BadInputError) as error:
        AnswerValue(DEEP, "topology").text(Expression(call), "cursor")
    assert "[[[" not in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("expression", "value", "found"),
    [("a", {"a": 1}, 1), ("a", [1], None), ("a.b", {"a": {"b": 2}}, 2), ("'x'", None, "x")],
)
def test_a_plain_key_and_an_expression_are_looked_up_alike(
    expression: str, value: object, found: object
) -> None:
    assert Expression(expression).of(value) == found


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: [", "line 2"),
        (b"a: 1\na: 2", "line 2"),
        (b"a: &x [1]\nb: [*x, *x]", "the anchor &x"),
        (b"a: \xff", "byte 3"),
        (b"a: !!python/object:os.system {}", "line 1"),
        (b"a: \x00", "no YAML"),
        (b"{[1]: 2}", "line 1"),
        (b"[" * 20000, "nesting"),
    ],
)
def test_yaml_with_surprises_is_refused_with_its_line(content: bytes, words: str) -> None:
    refusal = parse_yaml(content)
    assert isinstance(refusal, Refusal)
    assert words in str(refusal)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2024-02-30", "2024-02-30"),
        ("2024-02-28", "2024-02-28"),
        ("2024-01-01T99:99:99Z", "2024-01-01T99:99:99Z"),
        ("=", "="),
        ("<<", "<<"),
        ("-1.5e+3", -1500.0),
        ("0", 0),
        ("On", True),
        ("no", False),
        ("~", None),
        ("", None),
    ],
)
def test_a_sample_is_read_as_the_answer_that_it_is_a_copy_of(text: str, value: object) -> None:
    """JSON has no dates, and no calendar either."""
    assert parse_yaml(f"a: [{{b: {text}}}]".encode()) == {"a": [{"b": value}]}


@pytest.mark.parametrize("text", ["0x_", "9" * 5000, "0x1f", "012", "1_000", ".inf", "-.inf"])
def test_a_number_that_json_does_not_have_is_refused_with_its_line(text: str) -> None:
    """YAML 1.1 has more, which are texts or slips; some end its own reader."""
    refusal = parse_yaml(f"a: 1\nb:\n- {text}".encode())
    assert isinstance(refusal, Refusal)
    assert "that JSON does not have" in refusal.what
    assert refusal.where == "line 3"


SCRAPS = (
    "a", ": ", "- ", "\n", "\n  ", "[", "]", "{", "}", ",", "&x ", "*x", "!!binary ", "!!set ",
    "<<", "=", "2024-02-30", "2024-01-01T99:99:99Z", "0x_", "1:99", ".inf", "9" * 5000, "~", "On",
    "'", '"', "# ", "\t", "|\n", ">\n", "---\n", "%YAML 1.1\n", "? ", "\\", "\x85", "version",
)  # fmt: skip


@given(st.lists(st.sampled_from(SCRAPS), max_size=30).map("".join))
def test_any_scraps_of_yaml_are_a_document_of_json_or_a_refusal(text: str) -> None:
    found = parse_yaml(text.encode())
    assert isinstance(found, Refusal) or orjson.loads(orjson.dumps(found)) == found


@given(bent(MAPPING) | bent(LOGIN_MAPPING))
def test_any_mapping_is_one_or_is_refused_in_words(text: bytes) -> None:
    found = parse_yaml(text)
    mapping = found if isinstance(found, Refusal) else read_mapping(found)
    assert isinstance(mapping, ManagerMapping | Refusal)
    if isinstance(mapping, Refusal):
        assert mapping.where
        assert mapping.fix
        assert len(mapping.what) < 1000
        assert f"{mapping.what}{mapping.where}{mapping.fix}".isprintable()


def test_a_refused_file_is_named_with_the_place_in_it(tmp_path: Path) -> None:
    file = tmp_path / "mapping.yaml"
    file.write_text("version: 7\n")
    with pytest.raises(BadInputError, match=re.escape(f"{file}: ")):
        load_mapping(file)
    file.write_text("version: [\n")
    with pytest.raises(BadInputError, match="line 2"):
        load_mapping(file)
