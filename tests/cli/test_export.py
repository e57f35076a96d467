"""`topo export`: the graph as the master writes it, and refusals in its words."""

from pathlib import Path

from tests.cli.conftest import FakeMaster, Topo
from topo.cli.commands.export import GRAPHS
from topo.cli.exit_codes import Exit
from topo.model.rest.graph import GRAPH_MEDIA


def test_the_formats_are_those_of_the_master() -> None:
    assert [each.value for each in GRAPHS] == list(GRAPH_MEDIA)


def test_what_is_written_is_what_the_master_answers(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.broken["/v1/topology/graph"] = (200, "graph fabric {\n}\n", {})
    shown = topo("export", "-f", "dot", "--group", "s0", "--devices")
    assert (shown.exit_code, shown.stdout) == (Exit.OK, "graph fabric {\n}\n")
    asked = fake_master.asked[-1].query
    assert dict(asked) == {"format": "dot", "group": "s0", "devices": "vertices"}


def test_a_refusal_is_told_with_its_field_and_fix(topo: Topo, fake_master: FakeMaster) -> None:
    body = '{"detail": "there is no group \'s9\'", "field": "group", "fix": "did you mean s0?"}'
    fake_master.broken["/v1/topology/graph"] = (404, body, {})
    shown = topo("export", "--group", "s9")
    assert shown.exit_code == Exit.REFUSED
    assert shown.stdout == ""
    assert "did you mean s0?" in shown.stderr


def test_a_refusal_names_the_option_and_not_the_query(topo: Topo, fake_master: FakeMaster) -> None:
    body = '{"detail": "too many", "field": "devices", "fix": "name a group"}'
    fake_master.broken["/v1/topology/graph"] = (400, body, {})
    assert "at --devices\n" in topo("export", "--devices").stderr


def test_a_file_is_written_whole_or_not_at_all(
    topo: Topo, fake_master: FakeMaster, tmp_path: Path
) -> None:
    fake_master.broken["/v1/topology/graph"] = (200, "graph fabric {\n}\n", {})
    there = tmp_path / "fabric.dot"
    shown = topo("export", "--format", "dot", "-o", str(there))
    assert (shown.exit_code, shown.stdout) == (Exit.OK, "")
    assert there.read_text() == "graph fabric {\n}\n"
    shown = topo("export", "-o", str(tmp_path / "away" / "fabric.json"))
    assert shown.exit_code == Exit.USAGE
    assert "the file is not written: No such file or directory" in shown.stderr
    fake_master.broken["/v1/topology/graph"] = (404, '{"detail": "no"}', {})
    assert topo("export", "-o", str(there)).exit_code == Exit.REFUSED
    assert there.read_text() == "graph fabric {\n}\n"
