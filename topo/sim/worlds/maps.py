"""Clusters for simulations: even grids, machines that exist, and maps from a user's CSV file."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from topo.model.errors import BadInputError, Refusal
from topo.model.ids import DRAGONFLY, SWITCHBOX, GroupName, GroupPath, Kind, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import Host
from topo.sim.worlds.clusters import GPU_TYPE, NODE_GPUS, node

_ROW = Kind("row")
_GPUS = ("gpu", "gpus", "num_gpu")
_TYPES = ("model", "gpu_type")
_IGNORED = ("cpu_milli", "memory_mib")


def capacity_of(hosts: Iterable[Host]) -> Capacity:
    """Return an empty cluster of these hosts."""
    capacity = Capacity()
    for host in hosts:
        capacity.upsert(host)
    return capacity


def grid(
    tops: int,
    domains: int,
    nodes: int,
    *,
    gpu_type: str = GPU_TYPE,
    kinds: tuple[Kind, Kind] = (SWITCHBOX, DRAGONFLY),
) -> tuple[Host, ...]:
    """Even top groups of even domains of these `kinds`, every node open and empty, with 8 GPUs."""
    hosts = (
        node((domain // domains + 1, domain + 1), domain * nodes + number)
        for domain in range(tops * domains)
        for number in range(1, nodes + 1)
    )
    return tuple(replace(host, kinds=kinds, gpu_type=gpu_type) for host in hosts)


MACHINES: Mapping[str, Callable[[], tuple[Host, ...]]] = {
    "metax-c500-2x8": partial(grid, 40, 16, 2),
    "metax-c550-cube-4x8": partial(grid, 32, 8, 4, gpu_type="MXC550", kinds=(_ROW, DRAGONFLY)),
    "metax-8x8": partial(grid, 16, 8, 8),
    "cm384-48x8": partial(grid, 5, 4, 48, gpu_type="Ascend910C", kinds=(_ROW, Kind("supernode"))),
}
"""Clusters of machines that exist: dragonflies of two hosts; the 2x2 cube; 64 cards; CloudMatrix384
(arXiv 2506.12708), 48 nodes. The sizes of the domains are the makers' published ones; how many
there are is ours: about a thousand nodes."""


def read_map(path: Path) -> tuple[Host, ...]:
    """Return the nodes of a CSV file with a header: the first column names them.

    `gpu` or `gpus`, and `model` or `gpu_type`, say what they have (without the first: 8 GPUs, which
    is our assumption); `cpu_milli` and `memory_mib` are
    left out; every other column is a group, from the top down, known by the names above it too: in
    `lingjun_topo.csv` (github.com/alibaba/alibaba-lingjun-dataset-2023) ASW names repeat under
    every PSW. A column with one name for all tells nothing and is left out; an empty cell:
    not in a group of that column. Raises `BadInputError` for what cannot be read.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInputError(Refusal(str(error), str(path), "give a CSV file of nodes")) from None
    if len(rows) < 2:
        fix = "give a header and a line per node"
        raise BadInputError(Refusal("no nodes", str(path), fix))
    header = [cell.strip().lower() for cell in rows[0]]
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            what = f"{len(row)} cells under a header of {len(header)}"
            raise BadInputError(Refusal(what, f"{path}, row {number}", "give each column a cell"))
    groups = _group_columns(header, rows[1:])
    hosts = tuple(_host(header, row, groups) for row in rows[1:])
    _named(hosts, path)
    return hosts


def _group_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    others = {*_GPUS, *_TYPES, *_IGNORED}
    return [
        column
        for column, name in enumerate(header)
        if column and name not in others and len({row[column] for row in rows}) > 1
    ]


def _host(header: Sequence[str], row: Sequence[str], groups: Sequence[int]) -> Host:
    place = [
        (GroupName(row[column].strip()), Kind(header[column]), len(groups) - depth)
        for depth, column in enumerate(groups)
        if row[column].strip()
    ]
    cells = dict(zip(header, (cell.strip() for cell in row), strict=True))
    gpus = next((cells[name] for name in _GPUS if name in cells), str(NODE_GPUS))
    return Host(
        name=NodeName(row[0].strip()),
        path=GroupPath(tuple(name for name, _, _ in place)),
        kinds=tuple(kind for _, kind, _ in place),
        tiers=tuple(tier for _, _, tier in place),
        gpus=_whole(gpus, row[0]),
        gpu_type=next((cells[name] for name in _TYPES if name in cells), ""),
    )


def _whole(text: str, node: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 4:
        return int(text)
    fix = "give a whole number of GPUs"
    raise BadInputError(Refusal(f"{text!r} is not a number of GPUs", f"node {node}", fix))


def _named(hosts: Iterable[Host], path: Path) -> None:
    seen: set[NodeName] = set()
    for host in hosts:
        if not host.name:
            fix = "give every node a name in the first column"
            raise BadInputError(Refusal("a node has no name", str(path), fix))
        if host.name in seen:
            fix = "give every node one line"
            raise BadInputError(Refusal(f"node {host.name} stands there twice", str(path), fix))
        seen.add(host.name)
