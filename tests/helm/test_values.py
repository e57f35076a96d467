"""The values of the chart: their schema, their defaults, and the table of README.md."""

import tomllib
from typing import Any

import pytest
import yaml

from tests.helm.chart import (
    CASES,
    CHART,
    ROOT,
    leaves,
    readme_parts,
    schema,
    table,
    value_at,
    values,
)


def test_the_table_of_the_readme_is_that_of_the_schema() -> None:
    """`python -m tests.helm.chart` writes it."""
    _, shown, _ = readme_parts()
    assert shown == table()


def test_every_value_has_a_default_and_every_default_is_a_value() -> None:
    told = {path for path, _ in leaves(schema()) if path != "global"}
    for path in told:
        value_at(path)

    def given(below: Any, at: str) -> None:
        for name, value in below.items():
            path = f"{at}.{name}" if at else name
            if path not in told:
                assert isinstance(value, dict), f"{path} is in values.yaml and not in the schema"
                given(value, path)

    given(values(), "")


def test_every_value_is_explained() -> None:
    assert all(said.get("description") for _, said in leaves(schema()))


def test_the_schema_is_closed_everywhere() -> None:
    """An object either names its keys, or is one of Kubernetes' or of the user's own."""

    def look(below: Any, at: str) -> None:
        if isinstance(below, dict):
            if "properties" in below and below.get("type") == "object":
                assert below["additionalProperties"] is False, at
            for name, each in below.items():
                look(each, f"{at}/{name}")
        elif isinstance(below, list):
            for each in below:
                look(each, at)

    look(schema(), "")


def test_the_chart_has_the_version_of_the_product() -> None:
    product = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (product, product)


@pytest.mark.parametrize("mode", ["config", "dragonfly", "switchbox", "nvlink", "auto"])
def test_every_mode_has_a_kept_rendering(mode: str) -> None:
    assert yaml.safe_load((CASES / f"{mode}.yaml").read_text())["topoDiscovery"]["mode"] == mode
