"""A setting is one row: from it follow the parser, `--help`, the documentation and the chart."""

import json
from typing import Annotated

import pytest
import yaml
from pydantic import Field

from docs.tables import chart, settings
from master.settings import MasterSettings
from topo.kit.settings import Chart, chart_value, flag_of, help_text, read


class WithOneMore(MasterSettings):
    """A group of one."""

    spare_groups: Annotated[int, Field(ge=0, le=9), Chart("topoDiscovery.master.spareGroups")] = 3
    """Groups that are kept free."""


def test_a_new_row_is_a_flag_a_variable_and_a_line_of_the_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read(WithOneMore, ["--spare-groups=5"]).spare_groups == 5  # type: ignore[union-attr]
    monkeypatch.setenv("TOPO_SPARE_GROUPS", "7")
    assert read(WithOneMore, []).spare_groups == 7  # type: ignore[union-attr]
    assert "A group of one\n  --spare-groups=3\n      Groups that" in help_text(WithOneMore)


def test_a_new_row_is_a_row_of_the_documentation() -> None:
    row = "| `--spare-groups` | `3` | Groups that are kept free. | "
    assert row + "`topoDiscovery.master.spareGroups` |" in settings.render(WithOneMore)


def test_a_new_row_is_a_value_of_the_chart() -> None:
    made = chart.files(WithOneMore)
    values = yaml.safe_load(made["values.yaml"])
    assert values["topoDiscovery"]["master"]["spareGroups"] == 3
    leaf = dict(chart.leaves(json.loads(made["values.schema.json"])))
    assert leaf["topoDiscovery.master.spareGroups"] == {
        "type": "integer",
        "minimum": 0,
        "maximum": 9,
        "description": "Groups that are kept free.",
    }
    rows = json.loads(made["settings.json"])["always"]
    assert {"flag": "--spare-groups", "value": "topoDiscovery.master.spareGroups"} in rows


@pytest.mark.parametrize("name", chart.files(MasterSettings))
def test_the_files_of_the_chart_follow_from_the_settings(name: str) -> None:
    assert (chart.CHART / name).read_text() == chart.files(MasterSettings)[name], "run `make docs`"


NEED_A_CLUSTER = {"placement", "state_config_maps"}
"""Off for a master alone, on in the chart."""


def test_a_value_that_nobody_set_gives_what_the_documentation_of_its_flag_says() -> None:
    document = yaml.safe_load((chart.CHART / "values.yaml").read_text())
    for name, row in chart.plain_rows(MasterSettings):
        value = document
        for part in row.value.split("."):
            value = value[part]
        text = ",".join(value) if isinstance(value, list) else str(value)
        if name not in NEED_A_CLUSTER:
            given = read(MasterSettings, [f"{flag_of(name)}={text}"])
            assert isinstance(given, MasterSettings), name
            assert getattr(given, name) == MasterSettings.model_fields[name].default


def test_every_chart_value_that_a_setting_names_exists() -> None:
    told = dict(chart.leaves(json.loads((chart.CHART / "values.schema.json").read_text())))
    fields = MasterSettings.model_fields.values()
    named = {row.value for row in map(chart_value, fields) if row is not None}
    assert named <= told.keys()
