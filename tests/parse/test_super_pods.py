"""Ascend super pods: what npu-smi prints of each chip, and the map of a whole pod.

The real files are not part of the repository; without them their tests are skipped.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parse.answers import items, refused, understood
from topo.facts import parse
from topo.model.errors import Refusal
from topo.model.machine import FabricDomain, FabricKind, Gpu, GpuFabric
from topo.model.observation import DeclaredForest, DeclaredGroup

SHARED = Path(__file__).resolve().parents[2].parent / "shared/data/fabrics/ascend"


def sdid(server: int, device: int) -> int:
    """As an A3 numbers its dies: two of a chip, counted through the host."""
    return server << 22 | (device // 2) << 18 | (device % 2) << 16 | device


def chip(pod: int = 0, server: int = 4, device: int = 0, size: int = 384) -> str:
    """What npu-smi prints of one chip."""
    rows = {
        "SDID": sdid(server, device),
        "Super Pod Size": size,
        "Super Pod ID": pod,
        "Server Index": server,
    }
    return "".join(f"\t{key:<31}: {value}\n" for key, value in rows.items())


def host(devices: Iterable[int] = range(16), **more: int) -> str:
    """The outputs of all chips of a host."""
    return "".join(chip(device=device, **more) for device in devices)


def pods(text: str) -> set[tuple[str | None, int | None, int | None]]:
    """Pod, server index and size of each chip."""
    return {(f.cluster_uuid, f.server, f.size) for f in items(understood(text), GpuFabric)}


def shared(name: str) -> str:
    """A real file."""
    file = SHARED / name
    if not file.exists():
        pytest.skip("the outputs of others are not here")
    return file.read_text()


@given(
    pod=st.integers(0, 2**32 - 2),
    server=st.integers(0, 1023),
    size=st.integers(1, 20_000),
    dies=st.integers(1, 16),
)
def test_each_chip_of_a_host_is_read_with_its_pod_server_and_size(pod, server, size, dies) -> None:
    found = understood(host(range(dies), pod=pod, server=server, size=size))
    assert [gpu.index for gpu in items(found, Gpu)] == list(range(dies))
    fabrics = items(found, GpuFabric)
    assert {fabric.member_of for fabric in fabrics} == {
        FabricDomain(f"superpod-{pod}", 0, FabricKind.SUPER_POD)
    }
    assert {(fabric.server, fabric.size) for fabric in fabrics} == {(server, size)}
    assert found.warnings == ()


def test_a_real_output_is_read_to_its_truth() -> None:
    text = shared("npu-smi-spod-info.a3-384.txt")
    assert pods(text) == {("superpod-0", 4, 384)}
    assert isinstance(parse(text + text), Refusal)


def test_an_output_that_is_cut_off_is_refused_or_told() -> None:
    """Wherever it ends. Only between two chips nothing tells that there was another output."""
    first, whole = chip(server=15), host(range(2), server=15)
    for end in range(1, len(whole)):
        found = parse(whole[:end], "npu-smi-spod-info")
        if isinstance(found, Refusal) or found.warnings:
            continue
        assert whole[:end].strip() in {first.strip(), whole.strip()}, end
        assert {fabric.server for fabric in items(found, GpuFabric)} == {15}


def test_a_folded_output_is_refused_or_reads_the_same() -> None:
    lines = host(range(2), pod=12345).splitlines()
    for width in range(4, 50):
        parts = [line[n : n + width] for line in lines for n in range(0, len(line), width)]
        found = parse("\n".join(parts), "npu-smi-spod-info")
        if not isinstance(found, Refusal):
            pods_read = {(f.cluster_uuid, f.server) for f in items(found, GpuFabric)}
            assert (len(items(found, Gpu)), pods_read) == (2, {("superpod-12345", 4)})


def test_ids_that_stand_for_none_are_in_no_super_pod() -> None:
    """A server that is in none says -1 or the driver's 0xffffffff."""
    for pod in (-1, -2, 2**32 - 1):
        (fabric,) = items(understood(chip(pod=pod)), GpuFabric)
        assert (fabric.member_of, fabric.server) == (None, None)
    assert items(understood(chip(size=0)), GpuFabric)[0].member_of is None


def test_a_chip_that_stands_there_twice_is_refused_with_both_lines() -> None:
    refusal = refused(chip() + chip(device=1) + chip(), "npu-smi-spod-info")
    assert (refusal.where, "line 1" in refusal.what) == ("line 9", True)


def test_a_server_index_that_no_sdid_has_is_told() -> None:
    text = chip(server=4).replace("Index                   : 4", "Index                   : 5")
    assert "server index 5, and an SDID of server 4" in understood(text).warnings[0]


def test_the_map_of_a_super_pod_is_its_nodes_in_order() -> None:
    found = understood(shared("super-pod-0.superPodDevice.json"))
    (forest,) = items(found, DeclaredForest)
    (group,) = forest.roots
    assert isinstance(group, DeclaredGroup)
    assert (group.name, group.kind) == ("superpod-0", "superpod")
    assert [child.name for child in group.children] == [f"node-{n}" for n in range(1, 8)]


def pod_map(servers: dict[str, int]) -> dict[str, Any]:
    """A map of our own: two dies a node."""
    return {
        "SuperPodID": "7",
        "NodeDeviceMap": {
            node: {
                "NodeName": node,
                "DeviceMap": {str(die): str(sdid(server, die)) for die in (2 * nth, 2 * nth + 1)},
            }
            for nth, (node, server) in enumerate(servers.items())
        },
    }


def test_a_map_that_contradicts_itself_or_is_cut_off_is_refused() -> None:
    good = pod_map({"node-2": 3, "node-10": 4})
    (forest,) = items(understood(json.dumps(good)), DeclaredForest)
    (group,) = forest.roots
    assert isinstance(group, DeclaredGroup)
    assert [each.name for each in group.children] == ["node-2", "node-10"]
    assert "one server" in refused(json.dumps(pod_map({"a": 3, "b": 3}))).what
    text = json.dumps(good, indent=1)
    mark = text.index("NodeDeviceMap") + len('NodeDeviceMap":')
    for end in range(mark, len(text) - 1):
        assert isinstance(parse(text[:end]), Refusal), end
    assert isinstance(parse(text + text), Refusal)
    good["NodeDeviceMap"]["node-2"]["DeviceMap"]["1"] = str(sdid(9, 1))
    assert "of 2 servers" in refused(json.dumps(good)).what


def test_a_rank_table_is_named_and_not_taken_for_a_map_of_nodes() -> None:
    text = shared("hccl-rank-table.v1.2.a3.json")
    assert "(hccl-rank-table)" in refused(text).what
