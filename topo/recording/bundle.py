"""Recordings of a host's probes: a directory that a worker writes (a support bundle) or replays.

A bundle is `bundle.json` (version, identity, one entry per probe) beside the raw texts, one file
each. Raw texts rather than facts, so that a bundle made by an old worker is read by new parsers.
`topo.sim.bundles` makes those of simulated hosts; a support bundle is made by `topo-worker
--record`. A bundle may come from anybody: sizes are bounded and names cannot leave the directory.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import MaxLen
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from topo.facts.registry import READERS
from topo.kit.files import read_bounded
from topo.model.errors import Refusal
from topo.model.machine import NodeIdentity, ProbeState, Text

BUNDLE_FILE = "bundle.json"
BUNDLE_VERSION = 1
MAX_BUNDLE_BYTES = 1 << 20
MAX_TEXT_BYTES = 8 << 20
"""As much as a probe may print; `nvidia-smi -q -x` of eight B200 is 360 kB."""

_FIX = "record it anew with `topo-worker --record DIR`"


@dataclass(frozen=True, slots=True)
class RecordedProbe:
    """One probe's reading: its raw text where it gave one, and how the probe fared."""

    probe: str
    format: str
    state: ProbeState = ProbeState.OK
    text: str = ""
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Bundle:
    """A recording: the host, when it was made (ISO 8601, empty for simulated ones), the probes."""

    identity: NodeIdentity
    probes: tuple[RecordedProbe, ...]
    recorded_at: str = ""


class _ProbeEntry(BaseModel):
    model_config = ConfigDict(extra="ignore")

    probe: Text
    format: Text
    state: ProbeState
    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] | None = None
    detail: Text = ""
    seconds: float = 0.0


class _Index(BaseModel):
    model_config = ConfigDict(extra="ignore")

    version: int
    identity: NodeIdentity
    recorded_at: Text = ""
    probes: Annotated[tuple[_ProbeEntry, ...], MaxLen(64)]


def write(directory: Path, bundle: Bundle) -> None:
    """Write a bundle, making the directory; `OSError` where that cannot be done.

    Files of an earlier bundle are replaced; a link in the place of one is, too, never followed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    entries = []
    for probe in bundle.probes:
        reader = READERS.get(probe.format)
        file = f"{probe.probe}.{reader.ending if reader else 'txt'}" if probe.text else None
        if file is not None:
            _replace(directory / file, probe.text)
        fields = {**asdict(probe), "file": file, "seconds": round(probe.seconds, 6)}
        entries.append(_ProbeEntry.model_validate(fields))
    index = _Index(
        version=BUNDLE_VERSION,
        identity=bundle.identity,
        recorded_at=bundle.recorded_at,
        probes=tuple(entries),
    )
    _replace(directory / BUNDLE_FILE, index.model_dump_json(indent=1) + "\n")


def _replace(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with path.open("x", encoding="utf-8") as file:  # O_EXCL: fails on a link, even a dangling one
        file.write(text)


def read(directory: Path) -> Bundle | Refusal:
    """Return the bundle in a directory, or what is wrong with it and where."""
    place = directory / BUNDLE_FILE
    content = read_bounded(place, MAX_BUNDLE_BYTES)
    if isinstance(content, Refusal):
        return content
    try:
        index = _Index.model_validate_json(content)
    except ValidationError as error:
        finding = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in finding["loc"])
        return Refusal(f"not a bundle: {finding['msg']}", f"{place}: {where}", _FIX)
    if index.version != BUNDLE_VERSION:
        return Refusal(
            f"bundle version {index.version}, known is {BUNDLE_VERSION}", f"{place}: version", _FIX
        )
    probes: list[RecordedProbe] = []
    for entry in index.probes:
        probe = _read_probe(directory, entry)
        if isinstance(probe, Refusal):
            return probe
        probes.append(probe)
    return Bundle(index.identity, tuple(probes), index.recorded_at)


def _read_probe(directory: Path, entry: _ProbeEntry) -> RecordedProbe | Refusal:
    text = ""
    if entry.file is not None:
        content = read_bounded(directory / entry.file, MAX_TEXT_BYTES)
        if isinstance(content, Refusal):
            return content
        text = content.decode("utf-8", "replace")
    return RecordedProbe(entry.probe, entry.format, entry.state, text, entry.detail, entry.seconds)
