"""The Helm chart's part of the table of settings: flags, defaults, schema and the README's table.

A field that is annotated with `Chart("topoDiscovery.master.deviceConfigMap")` is set by that value.
From it follow a row in the chart's `settings.json`, by which the template writes the flag, and what
is missing in `values.schema.json` and `values.yaml`.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from docs.tables.section import ROOT, table
from topo.kit.durations import SPAN
from topo.kit.settings import (
    Chart,
    ServiceSettings,
    chart_value,
    default_text,
    flag_of,
    meaning,
)

CHART = ROOT / "helm" / "supernode-topology"
CONDITIONS = {
    "placement": "placement",
    "topoDiscovery.switchbox": "switchbox",
    "extender": "extender",
    "extender.quota": "extender",
    "extender.tls": "extender",
}
"""Flags that the template writes under a condition, by the parent of their value."""
_SPAN = r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d|w)$"
Row = tuple[str, Chart]


def plain_rows(cls: type[ServiceSettings]) -> list[Row]:
    """Return the fields whose flag is written from the table, with their values of the chart."""
    found = ((name, chart_value(field)) for name, field in cls.model_fields.items())
    return [(name, chart) for name, chart in found if chart is not None and chart.is_plain]


def flags(cls: type[ServiceSettings]) -> dict[str, list[dict[str, str]]]:
    """Return flag and value of each row, by the condition under which it is written."""
    found: dict[str, list[dict[str, str]]] = {"always": []}
    for name, chart in plain_rows(cls):
        condition = CONDITIONS.get(chart.value.rpartition(".")[0], "always")
        row = {"flag": flag_of(name), "value": chart.value}
        found.setdefault(condition, []).append(row)
    return found


def schema(cls: type[ServiceSettings], today: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of the values with the sentence of each setting, and its type if new."""
    made: dict[str, Any] = json.loads(json.dumps(today))
    for name, chart in plain_rows(cls):
        *parents, last = chart.value.split(".")
        place = made
        for parent in parents:
            place = place["properties"][parent]
        leaf = place["properties"].setdefault(last, {})
        if "oneOf" not in leaf:
            for key, value in _type(cls, name).items():
                leaf.setdefault(key, value)
        leaf["description"] = meaning(cls, name)
    return made


def _type(cls: type[ServiceSettings], name: str) -> dict[str, Any]:
    if SPAN in cls.model_fields[name].metadata:
        return {"type": "string", "pattern": _SPAN}
    document = cls.model_json_schema()
    told = document["properties"][name]
    if "$ref" in told:
        told = document["$defs"][told["$ref"].rpartition("/")[2]]
    kept = ("type", "enum", "minimum", "maximum", "exclusiveMinimum", "items")
    return {key: told[key] for key in kept if key in told}


def values(cls: type[ServiceSettings], text: str) -> str:
    """Return `values.yaml` with a line for each setting that it lacks, first in its parent."""
    lines = text.splitlines()
    for name, chart in plain_rows(cls):
        *parents, last = chart.value.split(".")
        if not _has(yaml.safe_load("\n".join(lines)), chart.value):
            at = _line_of(lines, parents)
            default = default_text(cls.model_fields[name]) or '""'
            lines.insert(at + 1, f"{'  ' * len(parents)}{last}: {default}")
    return "\n".join(lines) + "\n"


def _has(document: Any, path: str) -> bool:
    for name in path.split("."):
        if not isinstance(document, dict) or name not in document:
            return False
        document = document[name]
    return True


def _line_of(lines: list[str], parents: list[str]) -> int:
    at = -1
    for depth, parent in enumerate(parents):
        at = lines.index(f"{'  ' * depth}{parent}:", at + 1)
    return at


def leaves(schema: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the values that the schema lets one set, as (path, what it says of it)."""
    for name, below in schema["properties"].items():
        path = f"{at}.{name}" if at else name
        if "properties" in below:
            yield from leaves(below, path)
        else:
            yield path, below


def values_table() -> str:
    """Return the table of all values for the chart's README: what they mean, and their defaults."""
    document = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    rows = []
    for path, told in leaves(json.loads((CHART / "values.schema.json").read_text())):
        if path != "global":
            default = document
            for name in path.split("."):
                default = default[name]
            shown = json.dumps(default, ensure_ascii=False)
            rows.append((f"`{path}`", f"`{shown}`", told["description"]))
    return table(("value", "default", "meaning"), rows)


def files(cls: type[ServiceSettings]) -> dict[str, str]:
    """Return the files of the chart that follow from the settings, by name."""
    today = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    return {
        "settings.json": _json(flags(cls)),
        "values.schema.json": _json(schema(cls, today)),
        "values.yaml": values(cls, text),
    }


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
