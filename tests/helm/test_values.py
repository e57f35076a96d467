"""The values of the chart: their schema, their defaults, and the table of README.md."""

import tomllib
from typing import Any

import pytest
import yaml

from docs.tables.chart import leaves
from tests.helm.chart import (
    CASES,
    CHART,
    ROOT,
    schema,
    value_at,
    values,
)


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


PUBLISHED = {
    "registry": "",
    "domain": "metax-tech.com",
    "log": {"dir": "/var/log/metax", "level": "info", "format": "json"}
    | {"rotationTime": "1w", "maxAge": "26w"},
    "topoDiscovery": {
        "deploy": False,
        "enabled": False,
        "mode": "config",
        "rpcServerPort": 10001,
        "dragonfly": {"nodeNumber": 2, "enableTraining": False},
        "switchbox": {
            "nodeNumber": 2,
            "enableTraining": False,
            "clusterManagerAddress": "",
            "clusterManagerUser": "",
            "clusterManagerPassword": "",
            "clusterManagerPollTopoPeriod": 30,
            "clusterManagerPollEventPeriod": 10,
        },
        "master": {"serverPort": 9001, "env": [], "affinity": {}, "log": {}},
        "worker": {"metricsPort": 9002, "env": [], "affinity": {}, "log": {}},
    },
}
"""Of the vendor's charts, 0.13 to 0.15; what the manual leaves open is empty."""
RESOURCES = {
    "requests": {"cpu": "100m", "memory": "128Mi"},
    "limits": {"cpu": "500m", "memory": "512Mi"},
}


def test_the_vendors_values_have_the_vendors_names_and_defaults() -> None:
    def compare(published: Any, at: str) -> None:
        for name, default in published.items():
            path = f"{at}.{name}" if at else name
            if isinstance(default, dict) and default:
                compare(default, path)
            else:
                assert value_at(path) == default, path

    compare(PUBLISHED, "")
    for program in ("master", "worker"):
        assert value_at(f"topoDiscovery.{program}.resources") == RESOURCES
    tolerated = {each["key"] for each in value_at("topoDiscovery.master.tolerations")}
    assert tolerated == {f"node-role.kubernetes.io/{each}" for each in ("control-plane", "master")}


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


@pytest.mark.parametrize("mode", ["config", "dragonfly", "switchbox", "nvlink", "auto", "labels"])
def test_every_mode_has_a_kept_rendering(mode: str) -> None:
    assert yaml.safe_load((CASES / f"{mode}.yaml").read_text())["topoDiscovery"]["mode"] == mode
