"""The host: who must run, what is believed through failures, and what is settled."""

import json
from dataclasses import replace

import pytest

from topo.facts.link_counts import link_counts
from topo.model.machine import MAX_LINK_ERRORS, FabricDomain, NodeIdentity, ProbeState
from topo.sim.bundles import bundle_of
from topo.sim.worlds.presets import demo_world, nvlink_world
from worker import host_facts
from worker.host_facts import DROP_AFTER_FAILURES, HostFacts
from worker.probes.probe import MAX_DETAIL_CHARS, Probe, Reading, absent, failed, ok, timed_out

HOST = demo_world().nodes[0]
TEXTS = {take.probe: take.text for take in bundle_of(HOST).probes}


async def _never() -> Reading:
    raise NotImplementedError


def probe(name: str, *gives: str, instead_of: tuple[str, ...] = ()) -> Probe:
    """A probe that a test reads by hand."""
    return Probe(
        name=name,
        format=name,
        interval_s=1,
        timeout_s=1,
        read=_never,
        instead_of=instead_of,
        gives=frozenset(gives),
    )


PROBES = (
    probe("mxsml"),
    probe("mx-smi-list", "gpus", instead_of=("mxsml",)),
    probe("mx-exporter", "peers", "ports", instead_of=("mxsml",)),
    probe("sysfs-infiniband"),
)


TRAY = nvlink_world(1, 2).nodes[0]
NVIDIA_PROBES = (
    probe("nvml"),
    probe("nvidia-smi-xml", "gpus", "fabrics", instead_of=("nvml",)),
    probe("nvidia-smi-topo", "matrix", instead_of=("nvml",)),
)


@pytest.fixture
def host() -> HostFacts:
    """A host nobody has read anything into."""
    return HostFacts(HOST.identity, PROBES)


def states(host: HostFacts) -> dict[str, str]:
    """The health that the facts carry."""
    return {health.probe: health.state.value for health in host.facts().probes}


def test_stand_ins_wait_for_their_betters(host: HostFacts) -> None:
    """Nobody knows yet whether they are needed."""
    assert [host.needed(p.name) for p in PROBES] == [True, False, False, True]


def test_a_library_that_says_all_needs_no_stand_in(host: HostFacts) -> None:
    """They neither run nor appear among the probes' health."""
    host.add("mxsml", ok(TEXTS["mxsml"]))
    assert not host.needed("mx-smi-list")
    assert not host.needed("mx-exporter")
    assert not host.settled()
    host.add("sysfs-infiniband", ok(TEXTS["sysfs-infiniband"]))
    assert host.settled()
    assert states(host) == {"mxsml": "ok", "sysfs-infiniband": "ok"}
    facts = host.facts()
    assert (len(facts.gpus), len(facts.ports), len(facts.nics)) == (8, 56, 4)
    assert facts.peers is not None
    assert facts.identity == HOST.identity


def test_an_absent_library_is_replaced_by_its_stand_ins(host: HostFacts) -> None:
    """All of them, and the facts are theirs."""
    host.add("mxsml", absent("not here"))
    host.add("sysfs-infiniband", absent("none"))
    assert host.needed("mx-smi-list")
    assert not host.settled()
    host.add("mx-smi-list", ok(TEXTS["mx-smi-list"]))
    host.add("mx-exporter", ok(TEXTS["mx-exporter"]))
    assert host.settled()
    facts = host.facts()
    assert len(facts.gpus) == 8
    assert facts.peers is not None
    assert facts.peers.local == HOST.server_uuid


def without(name: str, errors: str) -> str:
    """The library's text of a host that has no such thing, or whose library cannot tell it."""
    text = json.loads(TEXTS["mxsml"])
    return json.dumps({**text, name: None, "errors": json.loads(errors)})


def test_a_library_that_cannot_tell_peers_needs_the_exporter_only(host: HostFacts) -> None:
    """Field by field: an old library without server UUIDs notes the call that it lacks."""
    error = '[{"call": "mxSmlGetLocalAndRemoteUuid", "device": null, "code": 999}]'
    host.add("mxsml", ok(without("servers", error)))
    assert (host.needed("mx-smi-list"), host.needed("mx-exporter")) == (False, True)


def test_a_library_that_says_there_are_no_peers_needs_no_exporter(host: HostFacts) -> None:
    """A host without links to others: nobody is asked every 15 s for what there is not."""
    host.add("mxsml", ok(without("servers", "[]")))
    assert not host.needed("mx-exporter")
    host.add("mxsml", failed("exit status 1"))
    assert host.needed("mx-exporter")


def test_a_better_that_comes_back_silences_its_stand_in(host: HostFacts) -> None:
    """What the stand-in said before is not mixed in."""
    host.add("mxsml", absent("not here"))
    host.add("mx-smi-list", failed("broken"))
    assert states(host) == {"mxsml": "absent", "mx-smi-list": "failed"}
    host.add("mxsml", ok(TEXTS["mxsml"]))
    assert states(host) == {"mxsml": "ok"}


@pytest.mark.parametrize("bad", [failed("exit status 9"), timed_out("no answer"), ok("nonsense")])
def test_what_was_good_is_believed_through_a_few_failures(host: HostFacts, bad: Reading) -> None:
    """Its health is bad from the first; its facts go with the third failure in a row."""
    host.add("mxsml", ok(TEXTS["mxsml"]))
    for count in range(1, DROP_AFTER_FAILURES + 1):
        health = host.add("mxsml", bad)
        assert health.state is (ProbeState.FAILED if bad.text else bad.state)
        assert len(host.facts().gpus) == (8 if count < DROP_AFTER_FAILURES else 0)
    host.add("mxsml", ok(TEXTS["mxsml"]))
    assert len(host.facts().gpus) == 8
    assert states(host)["mxsml"] == "ok"


def test_a_good_reading_between_failures_starts_the_count_anew(host: HostFacts) -> None:
    """Failures in a row, not in all."""
    for _ in range(DROP_AFTER_FAILURES + 1):
        host.add("mxsml", ok(TEXTS["mxsml"]))
        host.add("mxsml", failed("now and then"))
    assert len(host.facts().gpus) == 8


def test_a_text_nobody_understands_names_place_and_fix(host: HostFacts) -> None:
    """The refusal is the probe's detail."""
    health = host.add("mxsml", ok("{}"))
    assert health.state is ProbeState.FAILED
    assert len(health.detail) > 10
    assert host.add("mxsml", ok("{}")) == health


def test_no_secret_of_a_complaint_or_of_a_text_is_reported(host: HostFacts) -> None:
    """Whatever is in a report, anybody can read at the master."""
    host.add("mxsml", failed("exit status 1: dcgmi --token SEKRET --host h: " + "no answer " * 40))
    host.add("mx-smi-list", ok("password=SEKRET"))
    details = {health.probe: health.detail for health in host.facts().probes}
    assert details["mxsml"].startswith("exit status 1: dcgmi --token *** --host h: no answer")
    assert len(details["mxsml"]) == MAX_DETAIL_CHARS
    assert "SEKRET" not in str(details)


def test_a_parser_that_fails_does_not_stop_the_others(
    host: HostFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own mistake is that probe's failure."""

    def broken(text: str, form: str) -> None:
        raise RuntimeError(text[:1] + form)

    monkeypatch.setattr(host_facts, "parse", broken)
    health = host.add("mxsml", ok("x"))
    assert health.state is ProbeState.FAILED
    assert "RuntimeError('xmxsml')" in health.detail


def test_equal_readings_give_the_identical_facts(host: HostFacts) -> None:
    """Nothing is parsed or put together twice."""
    host.add("mxsml", ok(TEXTS["mxsml"]))
    before = host.facts()
    host.add("mxsml", ok(TEXTS["mxsml"]))
    assert host.facts() is before


def test_an_nvlink_tray_needs_no_nvidia_smi() -> None:
    """NVML states GPUs, fabrics and the matrix."""
    host = HostFacts(TRAY.identity, NVIDIA_PROBES)
    host.add("nvml", ok({t.probe: t.text for t in bundle_of(TRAY).probes}["nvml"]))
    assert host.settled()
    assert {fabric.member_of for fabric in host.facts().fabrics} == {
        FabricDomain(TRAY.fabric.cluster_uuid, TRAY.fabric.clique) if TRAY.fabric else None
    }


def test_a_host_without_nvlink_fabric_needs_no_nvidia_smi() -> None:
    """NVML states no fabric for an A100, which has none: the heavy query never runs."""
    text = json.loads({t.probe: t.text for t in bundle_of(TRAY).probes}["nvml"])
    for device in text["devices"]:
        device["fabric"] = None
    host = HostFacts(TRAY.identity, NVIDIA_PROBES)
    host.add("nvml", ok(json.dumps(text)))
    assert host.settled()
    assert not host.needed("nvidia-smi-xml")


def test_a_host_of_nothing_has_its_name() -> None:
    """No probe at all."""
    identity: NodeIdentity = HOST.identity
    assert HostFacts(identity, ()).facts().identity == identity


def test_a_library_that_begins_to_fail_is_relieved_without_a_gap(host: HostFacts) -> None:
    """Its stand-ins start at the first failure and are ready when it is no longer believed."""
    host.add("mxsml", ok(TEXTS["mxsml"]))
    host.add("sysfs-infiniband", absent("none"))
    assert host.settled()
    host.add("mxsml", timed_out("no answer"))
    assert host.needed("mx-smi-list")
    assert host.settled()
    host.add("mx-smi-list", ok(TEXTS["mx-smi-list"]))
    for _ in range(DROP_AFTER_FAILURES):
        host.add("mxsml", timed_out("no answer"))
        assert len(host.facts().gpus) == 8
    assert states(host)["mxsml"] == "timed-out"


ERRORS = {take.probe: take.text for take in bundle_of(TRAY).probes}["nvlink-errors"]
COUNTING = (probe("mxsml"), probe("nvml"), replace(probe("nvlink-errors"), awaited=False))


def errors(host: HostFacts) -> dict[tuple[int, int, str], int]:
    """(GPU, link, kind) to the count."""
    return {(each.gpu, each.link, each.kind.value): each.count for each in host.link_errors()}


def test_counters_of_links_are_no_facts_and_nobody_waits_for_them() -> None:
    """A tool that takes ten seconds keeps no node from being known, and a count is no change."""
    host = HostFacts(TRAY.identity, COUNTING)
    for name in ("mxsml", "nvml"):
        host.add(name, absent("not here"))
    assert host.settled()
    host.add("nvlink-errors", ok(ERRORS))
    before, counted = host.facts(), errors(host)
    assert set(counted.values()) == {0}
    assert len({(gpu, link) for gpu, link, _ in counted}) == 4 * 18
    host.add("nvlink-errors", ok(ERRORS.replace("Symbol Errors: 0", "Symbol Errors: 7")))
    assert {count for key, count in errors(host).items() if key[2] == "symbol"} == {7}
    assert host.facts() == before
    assert (before.gpus, before.ports) == ((), ())


def test_what_can_no_longer_be_read_is_not_counted_on() -> None:
    """Neither as it was, nor as zero."""
    host = HostFacts(TRAY.identity, COUNTING)
    host.add("nvlink-errors", ok(ERRORS))
    for _ in range(DROP_AFTER_FAILURES - 1):
        host.add("nvlink-errors", failed("exit status 15"))
        assert errors(host)
    host.add("nvlink-errors", failed("exit status 15"))
    assert errors(host) == {}


def test_counters_are_told_to_the_master_only_while_every_source_of_them_answers() -> None:
    """One that is missing would pass for one that was reset, and then for one that rose."""
    host = HostFacts(TRAY.identity, COUNTING)
    assert not host.is_counted()
    for name in ("nvlink-errors", "mxsml"):
        host.add(name, ok(ERRORS) if name == "nvlink-errors" else ok(TEXTS["mxsml"]))
    assert host.is_counted()
    assert link_counts(host.link_errors()) == ()
    for _ in range(DROP_AFTER_FAILURES + 1):
        host.add("mxsml", failed("the driver hangs"))
        assert not host.is_counted()
    host.add("mxsml", ok(TEXTS["mxsml"]))
    host.add("nvlink-errors", ok(ERRORS.replace("Symbol Errors: 0", "Symbol Errors: 7", 1)))
    assert host.is_counted()
    assert [(each.kind, each.count) for each in link_counts(host.link_errors())] == [("symbol", 7)]


def test_the_library_of_metax_counts_per_link() -> None:
    """A counter that it has not, or that overflowed, is none."""
    text = json.loads(TEXTS["mxsml"])
    first = text["devices"][0]["links"]
    first[0] |= {"corrected": 12, "uncorrected": -1}
    first[1] |= {"corrected": None}
    host = HostFacts(HOST.identity, COUNTING)
    host.add("mxsml", ok(json.dumps(text)))
    counted = errors(host)
    assert counted[0, 0, "corrected"] == 12
    assert {(0, 0, "uncorrected"), (0, 1, "corrected")}.isdisjoint(counted)
    assert len(counted) == 8 * 7 * 2 - 2


def test_so_many_counters_are_told_and_no_more() -> None:
    """Whatever a tool prints."""
    lines = [f"GPU {gpu}: H100 (UUID: GPU-{gpu})\n\t Links 0-17: No errors" for gpu in range(100)]
    host = HostFacts(TRAY.identity, COUNTING)
    host.add("nvlink-errors", ok("\n".join([*lines, ""])))
    assert len(host.link_errors()) == MAX_LINK_ERRORS
