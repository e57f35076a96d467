"""Bundles survive the disk, and broken ones are refused with their place."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.facts import parse, recognise
from topo.facts.assemble import assemble
from topo.model.errors import Refusal
from topo.model.machine import FabricDomain, FabricKind, PortState, ProbeState
from topo.recording.bundle import BUNDLE_FILE, Bundle, RecordedProbe, read, write
from topo.sim.bundles import bundle_of, write_bundle
from topo.sim.probe_outputs import addresses, metax
from topo.sim.worlds.presets import PRESET_NAMES, demo_world, nvlink_world, preset


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_a_written_bundle_reads_back_equal(name: str, tmp_path: Path) -> None:
    """Every preset's first host: write, read, compare."""
    world = preset(name)
    assert world is not None
    write_bundle(tmp_path, world.nodes[0])
    assert read(tmp_path) == bundle_of(world.nodes[0])


def test_a_failed_take_keeps_its_state_and_has_no_file(tmp_path: Path) -> None:
    """A probe that timed out is part of the recording."""
    take = RecordedProbe(
        "mxsml", "mxsml", ProbeState.TIMED_OUT, detail="no answer in 5 s", seconds=5.0
    )
    bundle = Bundle(demo_world().nodes[0].identity, (take,), "2026-01-02T03:04:05Z")
    write(tmp_path, bundle)
    assert read(tmp_path) == bundle
    assert [path.name for path in tmp_path.iterdir()] == [BUNDLE_FILE]


def test_a_bundle_replaces_an_earlier_one_and_follows_no_link(tmp_path: Path) -> None:
    """What a link in its place points to stays as it was."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "bundle"
    first, second = demo_world().nodes[:2]
    write_bundle(folder, first)
    for name in (BUNDLE_FILE, "mxsml.json"):
        (folder / name).unlink()
        (folder / name).symlink_to(victim)
    write_bundle(folder, second)
    assert victim.read_text() == "mine"
    assert read(folder) == bundle_of(second)


def test_a_fabric_less_tray_says_so() -> None:
    """Without a fabric the library's text has none and the CLI prints N/A."""
    bare = replace(nvlink_world(1, 1).nodes[0], fabric=None)
    texts = {take.probe: take.text for take in bundle_of(bare).probes}
    assert {d["fabric"] for d in json.loads(texts["nvml"])["devices"]} == {None}
    assert "State                             : N/A" in texts["nvidia-smi-fabric"]


def test_islands_meet_over_the_same_numa_node_or_the_system() -> None:
    """Eight GPUs in two islands on two NUMA nodes: MX inside, SYS across; one NUMA node: NODE."""
    node = demo_world().nodes[0]
    assert "GPU0    X       MX      MX      MX      SYS" in metax.smi_topo(node)
    single = replace(node, hardware=replace(node.hardware, numa_nodes=1))
    assert "GPU0    X       MX      MX      MX      NODE" in metax.smi_topo(single)


def _index(directory: Path) -> dict[str, object]:
    value = json.loads((directory / BUNDLE_FILE).read_text())
    assert isinstance(value, dict)
    return value


def test_an_absent_bundle_names_the_file(tmp_path: Path) -> None:
    """An empty directory is not a bundle."""
    refusal = read(tmp_path)
    assert isinstance(refusal, Refusal)
    assert BUNDLE_FILE in refusal.where


def test_a_missing_text_is_refused(tmp_path: Path) -> None:
    """The index names a file that is gone."""
    write_bundle(tmp_path, demo_world().nodes[0])
    (tmp_path / "mxsml.json").unlink()
    refusal = read(tmp_path)
    assert isinstance(refusal, Refusal)
    assert refusal.where.endswith("mxsml.json")


def test_a_file_name_cannot_leave_the_directory(tmp_path: Path) -> None:
    """A bundle from a stranger must not read /etc/passwd."""
    write_bundle(tmp_path, demo_world().nodes[0])
    index = _index(tmp_path)
    index["probes"] = [
        {"probe": "x", "format": "x", "state": "ok", "file": "../../../etc/passwd"},
    ]
    (tmp_path / BUNDLE_FILE).write_text(json.dumps(index))
    refusal = read(tmp_path)
    assert isinstance(refusal, Refusal)
    assert "probes.0.file" in refusal.where


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    """What a later worker wrote is not guessed at."""
    write_bundle(tmp_path, demo_world().nodes[0])
    (tmp_path / BUNDLE_FILE).write_text(json.dumps({**_index(tmp_path), "version": 2}))
    refusal = read(tmp_path)
    assert isinstance(refusal, Refusal)
    assert "version 2" in refusal.what


@given(st.integers(0, 127), st.integers(0, 127))
def test_no_two_gpus_share_an_address(a: int, b: int) -> None:
    """PCI addresses are distinct up to the largest host."""
    assert (addresses.bdf(a) == addresses.bdf(b)) == (a == b)


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_every_text_is_understood_without_a_doubt(name: str) -> None:
    """The parsers read each of our own texts as the format it claims to be, with no warning."""
    world = preset(name)
    assert world is not None
    for take in bundle_of(world.nodes[0]).probes:
        parsed = parse(take.text, take.format)
        assert not isinstance(parsed, Refusal), f"{take.probe}: {parsed}"
        assert parsed.warnings == (), take.probe
        assert recognise(take.text) == take.format


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_the_facts_of_a_bundle_are_those_of_its_world(name: str) -> None:
    """GPUs, links, peers and fabric come out as the host was made."""
    world = preset(name)
    assert world is not None
    node = world.nodes[0]
    takes = bundle_of(node).probes
    facts = assemble(node.identity, [(t.probe, parse(t.text, t.format)) for t in takes], ())
    if node.super_pod is None:  # of NPUs we read no UUID
        numbers = range(len(facts.gpus))
        assert [gpu.uuid for gpu in facts.gpus] == [node.gpu_uuid(i) for i in numbers]
    assert len(facts.gpus) == node.hardware.gpus
    assert all(gpu.healthy is not False for gpu in facts.gpus)
    assert {port.state for port in facts.ports} <= {PortState.UP, PortState.UNUSED}
    assert len(facts.nics) == node.hardware.nics
    assert (facts.peers.local if facts.peers else None) == node.server_uuid
    remotes = facts.peers.remotes if facts.peers else ()
    assert tuple(peer.uuid for peer in remotes) == node.peers
    fabric, pod = node.fabric, node.super_pod
    expected = {FabricDomain(fabric.cluster_uuid, fabric.clique)} if fabric is not None else set()
    if pod is not None:
        expected = {FabricDomain(f"superpod-{pod.number}", kind=FabricKind.SUPER_POD)}
    assert {member.member_of for member in facts.fabrics} == expected
