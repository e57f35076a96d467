"""Recordings in place of the host: taken, made anonymous, played, and bent by sentences."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from topo.facts import parse
from topo.kit.settings import read
from topo.model.errors import BadInputError, Refusal
from topo.model.ids import NodeName
from topo.model.machine import LinkErrorKind, LinkErrors, NodeFacts, ProbeState
from topo.recording import timeline
from topo.recording.bundle import Bundle, RecordedProbe
from topo.recording.bundle import read as read_bundle
from topo.recording.timeline import Timeline, parse_timeline
from topo.sim.bundles import bundle_of, write_bundle
from topo.sim.worlds.presets import demo_world
from worker import host_facts, record
from worker.probes.probe import Probe, Reading, failed, ok
from worker.replay import TimelineReplay, open_replay
from worker.settings import WorkerSettings

HOST = demo_world().nodes[2]
NODE = HOST.name
FACTS = NodeFacts(HOST.identity)


def settings(*argv: str) -> WorkerSettings:
    """Good settings."""
    found = read(WorkerSettings, argv)
    assert isinstance(found, WorkerSettings)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the bundle of node-sample3."""
    write_bundle(tmp_path, HOST)
    return tmp_path


def sentence(folder: Path, text: str) -> None:
    """Puts the faults file in place as `topo demo` does: written aside, then renamed."""
    aside = folder / "faults.new"
    aside.write_text(text)
    os.replace(aside, folder / "faults.txt")  # noqa: PTH105 - atomic on purpose


async def test_every_take_is_a_probe_that_says_the_same_again(folder: Path) -> None:
    """The texts of the bundle; the first probe at the fast pace, the others slowly."""
    replay = open_replay(folder)
    probes = replay.probes(settings("--probe-interval=0.25"))
    assert [probe.name for probe in probes] == [take.probe for take in replay.bundle.probes]
    assert [probe.interval_s for probe in probes[:2]] == [0.25, 15]
    assert [(await probe.read()).text for probe in probes] == [
        take.text for take in bundle_of(HOST).probes
    ]


async def test_a_recorded_failure_is_replayed_as_one() -> None:
    """Not every recording was made in good health."""
    take = RecordedProbe("mxsml", "mxsml", ProbeState.TIMED_OUT, detail="no answer in 5 s")
    replay = TimelineReplay(Path("/nowhere"), Bundle(HOST.identity, (take,)), Timeline())
    reading = await replay.probes(settings())[0].read()
    assert reading == Reading(ProbeState.TIMED_OUT, detail="no answer in 5 s")


def test_a_recording_may_play_under_another_name(folder: Path) -> None:
    """One bundle, many simulated nodes."""
    replay = open_replay(folder)
    assert replay.identity("") == HOST.identity
    assert replay.identity("node-x") == replace(HOST.identity, name=NodeName("node-x"))


def test_the_timeline_runs_from_the_start_of_the_replay(folder: Path) -> None:
    """Silent between the fifth and the ninth second."""
    script = parse_timeline(f"at 5s: {NODE} falls silent\nat 9s: {NODE} speaks")
    assert isinstance(script, Timeline)
    clock = iter([100.0, 104.9, 105.0, 108.9, 109.0])
    replay = TimelineReplay(folder, bundle_of(HOST), script, clock=lambda: next(clock))
    silent = [replay.is_silent(NODE) for _ in range(4)]
    assert silent == [False, True, True, False]


def test_faults_hold_as_long_as_they_stand_in_the_file(folder: Path) -> None:
    """No file, a sentence, another one, an empty file, no file."""
    replay = open_replay(folder)
    seen = []
    for text in (
        None,
        f"{NODE} falls silent",
        "remote 1 of node-x vanishes",
        f"{NODE} falls silent",
    ):
        if text is not None:
            sentence(folder, text)
        seen.append(replay.is_silent(NODE))
    (folder / "faults.txt").unlink()
    seen.append(replay.is_silent(NODE))
    assert seen == [False, True, False, True, False]


def test_errors_rise_on_a_link_that_counts_them_and_stay_when_it_counts_none() -> None:
    """Of those that are mended as they come; other links, and what they are added to, stay."""
    now_s = 0.0
    script = parse_timeline(
        f"at 5s: link 3 of gpu 2 of {NODE} counts errors\n"
        "at 5s: link 0 of gpu 0 of another counts errors\n"
        f"at 9s: link 3 of gpu 2 of {NODE} counts none\n"
    )
    assert isinstance(script, Timeline)
    recording = Bundle(HOST.identity, ())
    replay = TimelineReplay(Path("/nowhere"), recording, script, clock=lambda: now_s)
    counters = (
        LinkErrors(0, 0, LinkErrorKind.CORRECTED, 1),
        LinkErrors(2, 3, LinkErrorKind.CORRECTED, 7),
        LinkErrors(2, 3, LinkErrorKind.UNCORRECTED, 0),
    )

    def counts_at(at_s: float) -> list[int]:
        nonlocal now_s
        now_s = at_s
        return [each.count for each in replay.with_errors(NODE, counters)]

    counts = [counts_at(at_s) for at_s in (4.0, 6.0, 6.05, 7.0, 20.0)]
    assert counts == [[1, 7, 0], [1, 27, 0], [1, 27, 0], [1, 37, 0], [1, 37, 0]]
    assert timeline.apply(script.faults_at(6), FACTS) == FACTS


def test_faults_that_make_no_sense_change_nothing_and_are_told_once(folder: Path) -> None:
    """What stood before stands on."""
    replay = open_replay(folder)
    sentence(folder, f"{NODE} falls silent")
    assert replay.is_silent(NODE)
    with capture_logs() as lines:
        sentence(folder, f"{NODE} falls asleep")
        assert [replay.is_silent(NODE) for _ in range(3)] == [True] * 3
    assert [(line["event"], line["where"]) for line in lines] == [("faults file ignored", "line 1")]


def test_a_faults_file_that_cannot_be_read_is_told(folder: Path) -> None:
    """A folder of that name."""
    (folder / "faults.txt").mkdir()
    with capture_logs() as lines:
        assert not open_replay(folder).is_silent(NODE)
    assert lines[0]["where"].endswith("faults.txt")


def test_facts_without_faults_stay_the_identical_object(folder: Path) -> None:
    """Nothing is copied four times a second."""
    assert open_replay(folder).with_faults(FACTS) is FACTS


@pytest.mark.parametrize(
    ("spoil", "where"),
    [
        (lambda folder: (folder / "bundle.json").unlink(), "bundle.json"),
        (lambda folder: (folder / "timeline.txt").write_text("soon: x"), "timeline.txt, line 1"),
        (lambda folder: (folder / "timeline.txt").mkdir(), "timeline.txt"),
    ],
)
def test_a_recording_that_cannot_play_is_refused(
    folder: Path, spoil: Callable[[Path], object], where: str
) -> None:
    """Before anything starts, with the place."""
    spoil(folder)
    with pytest.raises(BadInputError) as caught:
        open_replay(folder)
    assert where in caught.value.refusal.where


def probe(name: str, reading: Reading, closed: list[str]) -> Probe:
    """A probe with one answer."""

    async def say() -> Reading:
        return reading

    return Probe(
        name=name,
        format=name,
        interval_s=1,
        timeout_s=1,
        read=say,
        close=lambda: closed.append(name),
    )


async def test_a_recording_holds_every_probe_as_it_fared(tmp_path: Path) -> None:
    """Texts, failures, durations; and the probes are closed afterwards."""
    closed: list[str] = []
    texts = {take.probe: take.text for take in bundle_of(HOST).probes}
    probes = [
        probe("mxsml", ok(texts["mxsml"]), closed),
        probe("nvml", failed("driver not loaded"), closed),
    ]
    bundle = await record.record(probes, HOST.identity)
    told = record.save(bundle, tmp_path / "bundle")
    assert read_bundle(tmp_path / "bundle") == replace(
        bundle, probes=tuple(replace(t, seconds=round(t.seconds, 6)) for t in bundle.probes)
    )
    assert [take.state for take in bundle.probes] == [ProbeState.OK, ProbeState.FAILED]
    assert closed == ["mxsml", "nvml"]
    assert "driver not loaded" in told


async def recorded(form: str, reading: Reading) -> RecordedProbe:
    """The take of one reading."""
    return (await record.record([probe(form, reading, [])], HOST.identity)).probes[0]


XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
<attached_gpus>1</attached_gpus>
<gpu id="00000000:18:00.0">
<product_name>H200</product_name><uuid>GPU-1</uuid>
%s
</gpu>
</nvidia_smi_log>
"""
PROCESSES = (
    "<processes><process_info><pid>1</pid>"
    "<process_name>python train.py --wandb-token=SEKRET</process_name>"
    "</process_info></processes>"
)


async def test_a_secret_in_an_output_does_not_reach_the_bundle() -> None:
    """Masked where it stands; what stands around it is worth having."""
    text = bundle_of(HOST).probes[3].text + "| note: --api_key=sk-12345678 of train.py |\n"
    take = await recorded("mx-smi-table", ok(text))
    assert "sk-12345678" not in take.text
    assert "train.py" in take.text


PEM = "-----BEGIN PRIVATE KEY-----\nSEKRET0123456789abcdef\n-----END PRIVATE KEY-----"
JWT = "eyJSEKRET0.eyJSEKRET1.SEKRET2"


@pytest.mark.parametrize(
    "note",
    [
        PEM,
        PEM.replace("\n", "\n| "),
        f"dial with {JWT} failed",
        "clone of https://SEKRET:SEKRET@github.example/repo failed",
        "gh" + "p_SEKRET0123456789abcdef0123456789abcd is expired",
        "GET https://store.example/a?sv=2&sig=SEKRET%3D&se=1 answers 403",
        "GET https://store.example/a?X-Amz-Signature=SEKRET&X-Amz-Date=1 answers 403",
        "AccountName=a;AccountKey=SEKRET==;EndpointSuffix=b",
        "AK" + "IASEKRET0123456789 is not allowed",
        "xo" + "xb-1234567890-SEKRET",
        "curl -H 'Authorization: Bearer SEKRET' -u me:SEKRET --password SEKRET",
    ],
)
async def test_every_kind_of_secret_is_masked_in_an_output(note: str) -> None:
    """And what the output states is as it was."""
    text = bundle_of(HOST).probes[3].text
    take = await recorded("mx-smi-table", ok(text + note + "\n"))
    assert take.state is ProbeState.OK
    assert take.text.startswith(text)
    assert "SEKRET" not in take.text
    assert "SEKRET" not in (await recorded("mx-smi-table", failed(note))).detail


async def test_processes_do_not_reach_the_bundle() -> None:
    """Their command lines are nobody's business: the table of mx-smi, the element of NVIDIA."""
    table = bundle_of(HOST).probes[3].text
    listed = "| Process:   |\n|  GPU   PID   Process Name |\n|  0   4711   python SEKRET |\n"
    take = await recorded("mx-smi-table", ok(table + listed))
    assert take.text == table
    take = await recorded("nvidia-smi-xml", ok(XML % PROCESSES))
    assert take.state is ProbeState.OK
    assert take.text == XML % "<processes/>"
    assert "SEKRET" not in (await recorded("nvidia-smi-xml", ok((XML % PROCESSES)[:-90]))).text


async def test_a_mask_does_not_eat_into_markup() -> None:
    """The element ends where it ended, so the text is still understood."""
    take = await recorded("nvidia-smi-xml", ok(XML % "<note>token=SEKRET</note>"))
    assert take.text == XML % "<note>token=***</note>"


async def test_a_text_that_cannot_be_masked_is_withheld() -> None:
    """Where masking changes what it says, for instance the model's name: no text at all."""
    text = bundle_of(HOST).probes[0].text.replace('"name": "', '"name": "token=SEKRET ', 1)
    assert "SEKRET" in text
    take = await recorded("mxsml", ok(text))
    assert (take.state, take.text, take.detail) == (ProbeState.FAILED, "", record.WITHHELD)


async def test_a_secret_in_a_complaint_does_not_reach_the_bundle() -> None:
    """The first line of a tool's standard error is kept as the detail."""
    take = await recorded("mxsml", failed("exit status 1: cannot log in with token=SEKRET"))
    assert take.detail == "exit status 1: cannot log in with token=***"


async def test_a_parser_that_fails_does_not_end_the_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its text is what the bundle is wanted for, masked."""

    def broken(text: str, form: str) -> None:
        raise RuntimeError(text[:1] + form)

    monkeypatch.setattr(host_facts, "parse", broken)
    take = await recorded("mxsml", ok("new words token=SEKRET"))
    assert (take.state, take.text) == (ProbeState.OK, "new words token=***")


def test_a_bundle_gets_a_folder_that_only_its_owner_may_enter(tmp_path: Path) -> None:
    """A new one, or an empty one of one's own."""
    (tmp_path / "empty").mkdir(mode=0o755)
    for folder in (tmp_path / "a" / "new", tmp_path / "empty"):
        record.claim_folder(folder)
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_bundle_does_not_go_where_something_is(tmp_path: Path) -> None:
    """A folder with files, a link to a folder, a file: refused with the way out."""
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for place in (full, full / "file", tmp_path / "link"):
        with pytest.raises(BadInputError) as caught:
            record.claim_folder(place)
        assert caught.value.refusal.fix == "give --record a new folder"


def test_a_bundle_does_not_go_into_a_strangers_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever made it can read what is put there."""
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(BadInputError):
        record.claim_folder(tmp_path)


def test_a_home_in_markup_is_made_anonymous() -> None:
    """The name ends where the tag begins."""
    take = RecordedProbe("nvidia-smi-xml", "nvidia-smi-xml", text=XML % "<note>/home/alice</note>")
    after = record.anonymised(Bundle(HOST.identity, (take,)), ())
    assert after.probes[0].text == XML % "<note>/home/user</note>"


def test_an_anonymous_bundle_says_the_same_without_names() -> None:
    """No host name, no address, no user; every text still reads as before."""
    table = bundle_of(HOST).probes[3]
    table = replace(table, text=table.text + "| 0  4711  /home/alice/run.sh by bob |\n")
    before = replace(bundle_of(HOST), probes=(*bundle_of(HOST).probes, table))
    after = record.anonymised(before, ["alice", "bob"])
    everything = "".join(take.text for take in after.probes) + str(after.identity)
    for name in (NODE, "alice", "bob", HOST.identity.internal_ip, HOST.identity.system_uuid):
        assert name not in everything
    assert "infiniband/xscale_0/" in everything  # adapters are part of the wiring
    for old, new in zip(before.probes, after.probes, strict=True):
        parsed = parse(old.text, old.format)
        assert not isinstance(parsed, Refusal)
        assert parse(new.text, new.format) == parsed


def test_a_host_named_like_a_word_of_a_format_keeps_the_format() -> None:
    """A host called MX: the matrix is worth more than the name."""
    bundle = bundle_of(HOST)
    named = replace(bundle, identity=replace(bundle.identity, hostname="MX"))
    after = record.anonymised(named, ())
    texts = {take.probe: take.text for take in after.probes}
    assert "MX      MX" in texts["mx-smi-topo"]


def test_people_are_not_the_systems_accounts() -> None:
    """Root and nobody tell nothing."""
    assert record.user_names().isdisjoint({"root", "nobody", "daemon"})
