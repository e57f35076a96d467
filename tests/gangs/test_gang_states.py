"""A state of a gang is one row: REST, Events, doctor, metrics, alerts, terminal, docs have it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from topo.model.conditions.gang_states import GangState, Stage

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "master" / "web" / "page"
NEW_ROW = """
    NEWLY = StateRow(
        "newly-added",
        "it is in a state that this test adds",
        event="GangNewlyAdded",
        event_type="Warning",
        condition=GangCondition.STUCK,
        is_prompt=True,
    )
"""
ASK = """
import json, sys, types
name, path, row = sys.argv[1:]
source = open(path).read().replace("    NATIVE = StateRow(", row + "    NATIVE = StateRow(")
module = sys.modules[name] = types.ModuleType(name)
exec(compile(source, path, "exec"), module.__dict__)

import prometheus_client as prom
from docs.tables import gang_states
from master.controllers.nomination.metrics import NominationMetrics
from monitoring.alerts import ALERTS
from topo.cli.render.gangs import _STAGES
from topo.model.conditions.catalogue import CONDITIONS
from topo.model.rest.document import validator
from topo.model.rest.gangs import GangSummary
from topo.publish.gang_events import GANG_REASONS

registry = prom.CollectorRegistry()
NominationMetrics(registry, dict, dict, slipped=int, native=int)
print(json.dumps({
    "rest": validator(GangSummary).json_schema()["properties"]["state"]["enum"],
    "events": dict(GANG_REASONS),
    "docs": gang_states.states(),
    "metrics": prom.generate_latest(registry).decode(),
    "alerts": [each.expr for each in ALERTS],
    "stages": _STAGES,
    "conditions": {each: each.row.condition for each in module.GangState},
    "doctor": sorted(CONDITIONS),
}))
"""


@pytest.fixture(scope="module")
def grown() -> Any:
    """What everything says that follows the table, after a row was added to its source."""
    name = "topo.model.conditions.gang_states"
    path = ROOT / f"{name.replace('.', '/')}.py"
    command = [sys.executable, "-c", ASK, name, str(path), NEW_ROW]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def test_a_row_that_is_added_is_found_everywhere(grown: Any) -> None:
    assert "newly-added" in grown["rest"]
    assert grown["events"]["GangNewlyAdded"] == "Warning"
    assert 'topo_master_gangs{reason="newly-added"}' in grown["metrics"]
    assert any("newly-added" in expr for expr in grown["alerts"])
    assert grown["stages"]["newly-added"] == Stage.BLOCKED
    assert grown["conditions"]["newly-added"] in grown["doctor"]
    (line,) = [each for each in grown["docs"].splitlines() if "`newly-added`" in each]
    for word in ("that this test adds", "`GangNewlyAdded`, Warning", "`gang-stuck`"):
        assert word in line


def test_a_row_that_is_added_is_missed_by_the_page_until_both_languages_have_it(
    grown: Any,
) -> None:
    assert missing_words(grown["rest"]) == {"en.js": ["newly-added"], "zh.js": ["newly-added"]}
    assert missing_words(list(GangState)) == {"en.js": [], "zh.js": []}


def missing_words(states: list[str]) -> dict[str, list[str]]:
    """The states without words, by the file of a language."""
    texts = {name: (PAGE / name).read_text() for name in ("en.js", "zh.js")}
    known = {
        name: set(re.findall(r'^  "?state_([\w-]+)"?:', text, re.MULTILINE))
        for name, text in texts.items()
    }
    return {name: [state for state in states if state not in known[name]] for name in texts}


def test_the_page_colours_a_state_by_its_stage() -> None:
    text = (PAGE / "gang_words.js").read_text()
    sets = {
        name: set(re.findall(r'"([\w-]+)"', words))
        for name, words in re.findall(r"^const (\w+) = new Set\(\[(.*?)\]\)", text, re.MULTILINE)
    }
    by_stage = {stage: {each for each in GangState if each.row.stage is stage} for stage in Stage}
    assert sets["WELL"] == by_stage[Stage.RUNNING] | by_stage[Stage.PLACED]
    assert sets["ON_THEIR_WAY"] == by_stage[Stage.PENDING]


@pytest.mark.parametrize("state", list(GangState))
def test_what_is_reported_as_a_warning_has_a_next_step(state: GangState) -> None:
    row = state.row
    step = row.condition.step if row.condition is not None else row.step
    assert step or row.event_type == "Normal"
    assert not (row.condition is not None and row.step), "one step in one place"
