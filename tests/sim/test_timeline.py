"""Sentences about faults: read exactly, refused with a way out, and bending only what they name."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.model.errors import Refusal
from topo.model.ids import Bdf, BootId, GpuUuid, NodeName, ServerUuid
from topo.model.machine import (
    FabricDomain,
    Gpu,
    GpuFabric,
    Link,
    LinkKind,
    LinkMatrix,
    LinkPort,
    NodeFacts,
    NodeIdentity,
    Peer,
    PortState,
    ServerPeers,
)
from topo.recording.timeline import (
    MAX_LINES,
    OF_SUPER_POD,
    Fault,
    FaultKind,
    Sentence,
    Timeline,
    active_faults,
    apply,
    is_silent,
    parse_faults,
    parse_timeline,
)

NODE = NodeName("node-3")
FACTS = NodeFacts(
    NodeIdentity(NODE, BootId("boot")),
    gpus=tuple(
        Gpu(i, GpuUuid(f"GPU-{i}"), Bdf(f"0000:{i:02x}:00.0"), healthy=True) for i in (0, 1)
    ),
    ports=tuple(LinkPort(gpu, port, PortState.UP) for gpu in (0, 1) for port in (0, 1)),
    peers=ServerPeers(ServerUuid("a"), (Peer(1, ServerUuid("b")), Peer(2, ServerUuid("c")))),
    fabrics=tuple(GpuFabric(i, "Completed", "Success", "uuid", 7, healthy=True) for i in (0, 1)),
)

nodes = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True).map(NodeName)


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    """Any fault, with the numbers that its kind has."""
    kind = draw(st.sampled_from(FaultKind))
    by_index = {FaultKind.REMOTE_GONE, *OF_SUPER_POD}
    has_gpu = kind not in {FaultKind.SILENT, *by_index}
    has_index = kind in {FaultKind.LINK_DOWN, FaultKind.LINK_SLOW, *by_index}
    return Fault(
        kind,
        draw(nodes),
        gpu=draw(st.integers(0, 128)) if has_gpu else 0,
        index=draw(st.integers(0, 1024)) if has_index else 0,
    )


sentences = st.builds(
    Sentence,
    faults(),
    begins=st.booleans(),
    at_s=st.integers(0, 86_400_000).map(lambda n: n / 1000),
)


@given(st.lists(sentences, max_size=8))
def test_what_is_written_reads_back(said: list[Sentence]) -> None:
    """Printing a timeline and reading it gives the same sentences, by time."""
    text = "\n".join(f"at {s.at_s:.3f}s: {s}" for s in said)
    assert parse_timeline(text) == Timeline(tuple(sorted(said, key=lambda s: s.at_s)))


@given(st.lists(sentences, max_size=8))
def test_ending_every_fault_leaves_none(said: list[Sentence]) -> None:
    """After every fault was ended nothing stands, whatever came before."""
    ends = [Sentence(s.fault, begins=False) for s in said]
    assert active_faults([*said, *ends]) == frozenset()


@given(st.frozensets(faults(), max_size=6))
def test_faults_of_other_nodes_bend_nothing(some: frozenset[Fault]) -> None:
    """A timeline may be shared by all hosts of a world."""
    others = frozenset(fault for fault in some if fault.node != NODE)
    assert apply(others, FACTS) == FACTS


@given(st.frozensets(faults(), max_size=6))
def test_the_same_faults_applied_twice_bend_once(some: frozenset[Fault]) -> None:
    """Applying faults to bent facts changes nothing more."""
    mine = frozenset(Fault(f.kind, NODE, f.gpu % 2, f.index % 3) for f in some)
    once = apply(mine, FACTS)
    assert apply(mine, once) == once


@given(st.text(max_size=200))
def test_any_text_is_a_timeline_or_a_refusal_with_a_line(text: str) -> None:
    """Nothing raises."""
    for result in (parse_timeline(text), parse_faults(text)):
        if isinstance(result, Refusal):
            assert result.where.startswith("line ")
            assert result.fix


def test_the_example_of_the_manual() -> None:
    """A remote vanishes at five seconds and returns at nine."""
    timeline = parse_timeline(
        "# a cable is pulled and put back\n"
        "at 9s: remote 1 of node-3 returns\n\n"
        "at  5s:  remote 1 of  node-3 vanishes # gone\n"
    )
    assert isinstance(timeline, Timeline)
    gone = frozenset({Fault(FaultKind.REMOTE_GONE, NODE, index=1)})
    assert [timeline.faults_at(t) for t in (4.9, 5.0, 8.9, 9.0)] == [set(), gone, gone, set()]


@pytest.mark.parametrize(
    ("time", "seconds"), [("250ms", 0.25), ("5s", 5), ("1.5s", 1.5), ("2m", 120), ("1h", 3600)]
)
def test_times_have_units(time: str, seconds: float) -> None:
    """Milliseconds to hours."""
    timeline = parse_timeline(f"at {time}: node-3 falls silent")
    assert isinstance(timeline, Timeline)
    assert timeline.sentences[0].at_s == seconds


def bent(sentence: str) -> NodeFacts:
    """The facts of node-3 while the sentence stands."""
    some = parse_faults(sentence)
    assert not isinstance(some, Refusal)
    return apply(some, FACTS)


def test_a_vanished_remote_leaves_its_slot_empty() -> None:
    """Slot 1 goes, slot 2 keeps its number."""
    peers = bent("remote 1 of node-3 vanishes").peers
    assert peers is not None
    assert [peer.slot for peer in peers.remotes] == [2]


def test_a_failed_gpu_is_unhealthy() -> None:
    """Only that GPU."""
    assert [gpu.healthy for gpu in bent("gpu 1 of node-3 fails").gpus] == [True, False]


def test_a_link_goes_down_alone() -> None:
    """The other three ports stay up."""
    down = [p for p in bent("link 1 of gpu 0 of node-3 goes down").ports if p.state == "down"]
    assert [(port.gpu, port.port) for port in down] == [(0, 1)]


def test_an_nvlink_slows_and_stays_up() -> None:
    """A host without NVLink has none that could."""
    slow = parse_faults("link 1 of gpu 0 of node-3 slows down")
    assert not isinstance(slow, Refusal)
    assert apply(slow, FACTS) == FACTS
    kinds = ((LinkKind.SELF, LinkKind.NVLINK), (LinkKind.NVLINK, LinkKind.SELF))
    rows = tuple(tuple(Link(kind, kind.value) for kind in row) for row in kinds)
    linked = replace(FACTS, matrix=LinkMatrix(("GPU0", "GPU1"), (), rows))
    told = {(p.gpu, p.port): p.trouble for p in apply(slow, linked).ports if p.state == "up"}
    assert {where for where, trouble in told.items() if trouble} == {(0, 1)}
    assert told[0, 1] == "degraded: simulated fault"


def test_a_broken_fabric_is_no_membership_and_a_degraded_one_is() -> None:
    """Broken leaves the domain; degraded stays a member in bad health."""
    broken = bent("fabric of gpu 0 of node-3 breaks").fabrics
    assert [fabric.member_of for fabric in broken] == [None, FabricDomain("uuid", 7)]
    degraded = bent("fabric of gpu 1 of node-3 degrades").fabrics
    assert [fabric.healthy for fabric in degraded] == [True, False]
    assert degraded[1].member_of == FabricDomain("uuid", 7)


def test_silence_changes_no_fact() -> None:
    """A silent node is told apart by `is_silent`, not by its facts."""
    some = parse_faults("node-3 falls silent")
    assert not isinstance(some, Refusal)
    assert apply(some, FACTS) == FACTS
    assert is_silent(some, NODE)
    assert not is_silent(some, NodeName("node-4"))


def test_a_host_without_peers_loses_none() -> None:
    """A remote of a host that reports no servers is nothing to lose."""
    bare = NodeFacts(FACTS.identity)
    assert apply(frozenset({Fault(FaultKind.REMOTE_GONE, NODE, index=1)}), bare) == bare


@pytest.mark.parametrize(
    ("text", "where", "fix"),
    [
        ("remote 1 of node-3 vanishes", "line 1", "begin with a time"),
        ("at 5s: gpu 1 of node-3 fails\nat 6s: gpu 1 of node-3 falls", "line 2", "gpu 2 of NODE"),
        ("at 5s: at 6s: node-3 speaks", "line 1", "leave the time out"),
        ("at 5s: make coffee", "line 1", "say one of"),
        ("\n" * (MAX_LINES + 1), f"line {MAX_LINES + 1}", "shorten"),
    ],
)
def test_bad_sentences_are_refused_with_line_and_fix(text: str, where: str, fix: str) -> None:
    """The line, and the nearest sentence that would be understood."""
    refusal = parse_timeline(text)
    assert isinstance(refusal, Refusal)
    assert refusal.where == where
    assert fix in refusal.fix


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("gpu 2 of node-3 vanishes", "gpu 2 of NODE fails"),
        ("gpu 2 of node-3 explodes", "gpu 2 of NODE fails"),
        ("gpu 2 of node-3 heal", "gpu 2 of NODE heals"),
        ("link 3 of gpu 2 of node-3 breaks", "link 1 of gpu 2 of NODE goes down"),
        ("remote 1 of node-3 return", "remote 1 of NODE returns"),
        ("node-3 is silent", "NODE falls silent"),
    ],
)
def test_what_is_suggested_is_never_the_contrary(said: str, meant: str) -> None:
    """Whoever wants to break something is not told how to mend it, nor something else."""
    refusal = parse_timeline(f"at 0s: {said}")
    assert isinstance(refusal, Refusal)
    assert refusal.fix == f"did you mean `{meant}`?"


def test_a_time_in_the_faults_file_is_refused() -> None:
    """Faults that stand have no time."""
    refusal = parse_faults("at 5s: node-3 speaks")
    assert isinstance(refusal, Refusal)
    assert "leave the time out" in refusal.fix
