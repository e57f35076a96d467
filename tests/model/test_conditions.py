"""The catalogue of condition codes: each code is one row, and nothing states a code by itself."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from docs.tables import conditions
from master.settings import MasterSettings
from monitoring.alerts import ALERTS
from topo.diagnosis import diagnosis, steps
from topo.kit.settings import flag_of
from topo.model.conditions import catalogue
from topo.model.conditions.catalogue import CONDITIONS, PAGE, TABLES, Table, by_code
from topo.model.conditions.condition import Condition, Row, Severity
from topo.model.conditions.gang_states import GangState
from topo.model.rest.document import validator
from topo.model.rest.findings import FindingDocument
from topo.model.rest.topology import TopologyDocument, WarningDocument
from worker.settings import WorkerSettings

ROOT = Path(__file__).parents[2]
_CODE_AT = {
    "Reason": 0,
    "Conflict": 0,
    "JoinFailure": 0,
    "Case": 0,
    "Finding": 1,
    "WorkerRefused": 1,
}
"""Which argument of these calls is a code."""
_OTHER_MEANING = {"pods-missing", "state-copy", "admission-certificate", "volcano-configuration"}
"""A reason of a gang, a kind of source and two background tasks, which have the word of a code."""


class _Extra(Condition):
    NEW = Row("brand-new", "it was added", "look at NODE", Severity.NOTE)


EXTRA = Table("node", _Extra, "extra")


def modules() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("topo", "master", "worker"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(("topo/model/conditions/", "topo/sim/")):  # faults have words
                yield name, ast.parse(path.read_text(encoding="utf-8"))


def is_none(node):
    return isinstance(node, ast.Constant) and node.value is None


def test_no_module_states_a_code_by_itself():
    found = set()
    for name, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                at = _CODE_AT.get(node.func.id, len(node.args))
                codes = [*node.args[at : at + 1]]
                codes += [k.value for k in node.keywords if k.arg == "code" and at < 2]
                written = [c for c in codes if isinstance(c, ast.Constant | ast.JoinedStr)]
                found |= {(name, ast.unparse(code)) for code in written if not is_none(code)}
            elif isinstance(node, ast.Constant) and node.value in CONDITIONS:
                word = str(node.value)
                if "-" in word and word not in _OTHER_MEANING:
                    found.add((name, word))
    assert found == set()


def test_no_two_rows_have_one_code_and_every_row_has_a_cause():
    rows = [row for table in TABLES for row in table.rows]
    assert len(rows) == len(CONDITIONS)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", row) and row.cause for row in rows)


def test_every_kind_of_condition_is_a_table():
    assert {table.rows for table in TABLES} == {*Condition.__subclasses__()} - {_Extra}


def test_every_table_stands_under_its_own_heading():
    """So that `PAGE#section` is a link to it."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    for table in TABLES:
        heading = text.partition(f"<!-- generated: {table.section} -->")[0].rpartition("\n#")[2]
        title = heading.partition("\n")[0].lstrip("# ")
        assert title.lower().replace(" ", "-") == table.section


@pytest.fixture
def extended(monkeypatch):
    """A release with one more row."""
    monkeypatch.setattr(catalogue, "CONDITIONS", by_code((*TABLES, EXTRA)))


@pytest.mark.usefixtures("extended")
def test_a_new_row_is_found_by_the_doctor_the_rest_schema_and_the_documentation():
    code = _Extra.NEW
    warning = WarningDocument.of(code, "it is so")
    document = validator(TopologyDocument).validate_python(
        {"generation": 1, "groups": [], "warnings": [warning]}
    )
    found = {finding.code: finding for finding in diagnosis.examine(document)}
    assert (found["brand-new"].severity, found["brand-new"].next_step) == ("note", "look at NODE")
    assert steps.step("brand-new", "n1", "auto") == "look at n1"
    schema = TypeAdapter(FindingDocument).json_schema()
    assert "brand-new" in schema["properties"]["code"]["enum"]
    assert "| `brand-new` | it was added | look at NODE |" in conditions.render(EXTRA)


def test_a_code_of_a_later_release_is_shown_with_the_general_step():
    assert steps.step("of-tomorrow", "n1", "auto") == "`topo node n1` shows what is known"
    assert steps.source_step("of-tomorrow") == "look at the master's log"
    read = {"code": "of-tomorrow", "severity": "wrong"}
    read |= {"subject": "n1", "what": "it", "next_step": "wait"}
    assert validator(FindingDocument).validate_python(read)["code"] == "of-tomorrow"


def test_every_code_that_an_alert_a_dashboard_or_the_page_names_is_a_row():
    named = set(
        re.findall(r'(?:reason|code)(?:=~|!~|!=|=)"([a-z|-]+)"', " ".join(a.expr for a in ALERTS))
    )
    for path in (ROOT / "monitoring/dashboards").glob("*.py"):
        named |= set(re.findall(r'(?:reason|code)(?:=~|!=|=)"([a-z|-]+)"', path.read_text()))
    for path in (ROOT / "master/web/page").glob("*.js"):
        named |= set(re.findall(r'code === "([a-z-]+)"', path.read_text()))
    words = {word for text in named for word in text.split("|")}
    assert {"worker-stale", "link-degraded", "child-not-ready"} <= words
    assert words <= CONDITIONS.keys() | {*GangState}


def test_every_flag_that_the_catalogue_names_is_one():
    known = {flag_of(name) for cls in (MasterSettings, WorkerSettings) for name in cls.model_fields}
    known |= {
        "--master",
        "--namespace",
        "--kubeconfig",
        "--exclude",
        "--fabric",
        "--cost",
        "--previous",
        "--runtime-config",
    }  # of topo, kubectl, kube-apiserver
    words = " ".join(f"{row.cause} {row.step}" for row in CONDITIONS.values())
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", words))
    assert len(named) > 20
    assert named <= known
