"""The table of what a master takes: figures of `bench/results.json`, measured by `make bench`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from docs.tables.section import ROOT, table

_UNITS = {"req/s": "a second", "placements/s": "a second"}
_SIZES = ("1,000", "10,000")
_FIGURES: Sequence[tuple[str, str, str]] = (
    (
        "memory of a master in a cluster",
        "kube",
        "master beside Kubernetes, {} nodes: peak",
    ),
    ("the same, with the full link matrix of every node", "footprint", "master RSS, {} nodes"),
    ("its processor, while all workers beat", "footprint", "master CPU, {} nodes, 1,000 beats/s"),
    ("until all workers have reported, all at once", "footprint", "first reports of {} nodes"),
    ("labels of all nodes, from nothing", "kube", "labels from nothing, {} nodes"),
    ("HyperNodes, from nothing", "kube", "HyperNodes from nothing, {} nodes"),
    ("a leader is killed: another leads", "kube", "leader killed, {} nodes: another leads"),
    ("full answers of `/node_group`", "http", "full gzip, {} nodes, 32 connections"),
    ("placements", "placement_http", "POST /v1/placements, {} nodes, 100 changes/s"),
)
"""What a row says, the benchmark, and the name of its figure without the number of nodes."""


def render() -> str:
    """Return the table; a figure that is measured at one size has the other's cell empty."""
    results = json.loads((ROOT / "bench/results.json").read_text("utf-8"))["benchmarks"]
    rows = (
        (what, *(_figure(results[name]["figures"], figure.format(size)) for size in _SIZES))
        for what, name, figure in _FIGURES
    )
    return table(("", *(f"{size} nodes" for size in _SIZES)), rows)


def _figure(figures: Sequence[Mapping[str, Any]], name: str) -> str:
    """Return the figure with its unit, to two or three digits."""
    for each in figures:
        if each["name"] == name:
            value = f"{each['value']:,.0f}" if each["value"] >= 100 else f"{each['value']:.2g}"
            unit = _UNITS.get(each["unit"], each["unit"])
            return f"{value} {unit}"
    return ""
