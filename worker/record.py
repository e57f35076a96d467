"""The support bundle: the raw text of every probe, secrets masked, on demand without names."""

import asyncio
import contextlib
import getpass
import os
import pwd
import re
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from topo.model.errors import BadInputError, Refusal
from topo.model.ids import NodeName
from topo.model.machine import NodeIdentity, ProbeState
from topo.recording.bundle import Bundle, RecordedProbe, write
from worker.probes.probe import Probe, read_in_time
from worker.redaction import redacted, same_facts

STAND_IN = "node-anonymous"
WITHHELD = "withheld: with its secrets masked it would say something else"
_FIRST_PERSON_UID = 1000
"""Smaller ids are accounts of the system, not of people (login.defs, UID_MIN)."""
_HOME = re.compile(r"(?<=/home/)[^/\s\"'<]+")


async def record(probes: Sequence[Probe], identity: NodeIdentity) -> Bundle:
    """Read every probe once, stand-ins included, with secrets masked (see `redaction`)."""
    recorded = await asyncio.gather(*(_recorded(probe) for probe in probes))
    for probe in probes:
        probe.close()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Bundle(identity, tuple(recorded), now)


async def _recorded(probe: Probe) -> RecordedProbe:
    begun_s = time.monotonic()
    reading = await read_in_time(probe)
    seconds = time.monotonic() - begun_s
    text = redacted(reading.text, probe.format)
    if text is None:
        return RecordedProbe(
            probe.name, probe.format, ProbeState.FAILED, detail=WITHHELD, seconds=seconds
        )
    return RecordedProbe(probe.name, probe.format, reading.state, text, reading.detail, seconds)


def user_names() -> frozenset[str]:
    """Return the names of this host's human users."""
    known = {user.pw_name for user in pwd.getpwall() if user.pw_uid >= _FIRST_PERSON_UID}
    with contextlib.suppress(KeyError, OSError):
        known.add(getpass.getuser())
    return frozenset(known - {"nobody", "root"})


def anonymised(bundle: Bundle, users: Iterable[str]) -> Bundle:
    """Return the bundle without the host's names and addresses and without user names.

    A name that is also a word of a format (a host called `gpu`) stays where replacing it would
    change what the text says. Server UUIDs stay: they are what the recording is about.
    """
    identity = bundle.identity
    names = {identity.name, identity.hostname, identity.hostname.partition(".")[0]}
    names |= {identity.internal_ip, identity.provider_id, identity.system_uuid}
    words = {name: STAND_IN for name in names if name} | dict.fromkeys(users, "user")
    longest_first = sorted(words, key=len, reverse=True)
    rules = [(re.compile(rf"(?<![\w-]){re.escape(n)}(?![\w-])"), words[n]) for n in longest_first]

    def clean(seen: RecordedProbe) -> RecordedProbe:
        text, detail = seen.text, seen.detail
        for pattern, word in ((_HOME, "user"), *rules):
            changed = pattern.sub(word, text)
            text = changed if same_facts(text, changed, seen.format) else text
        for pattern, word in rules:
            detail = pattern.sub(word, detail)
        return replace(seen, text=text, detail=detail)

    return Bundle(
        NodeIdentity(NodeName(STAND_IN), identity.boot_id, hostname=STAND_IN),
        tuple(clean(seen) for seen in bundle.probes),
        bundle.recorded_at,
    )


def claim_folder(directory: Path) -> None:
    """Create the folder for a bundle with mode 0700, or take an empty one of this user.

    A folder that somebody else prepared, or filled, is refused with `BadInputError`: a worker is
    often root, and folders such as /tmp belong to everybody. `OSError` where it cannot be made.
    """
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700, parents=True)
        return
    owner = directory.lstat()
    ours = stat.S_ISDIR(owner.st_mode) and owner.st_uid == os.geteuid()
    if not ours or any(directory.iterdir()):
        what = "the folder is not empty" if ours else "this is there, and is no folder of this user"
        raise BadInputError(Refusal(what, str(directory), "give --record a new folder"))
    directory.chmod(0o700)


def save(bundle: Bundle, directory: Path) -> str:
    """Write the bundle. Return a text for the person who recorded it."""
    write(directory, bundle)
    lines = [
        f"  {seen.probe:<18} {seen.state.value:<10} {len(seen.text):>8} bytes  {seen.detail}"
        for seen in bundle.probes
    ]
    head = f"support bundle of {bundle.identity.name} in {directory}"
    return "\n".join([head, *lines])
