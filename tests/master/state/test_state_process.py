"""Holds that were given outlive kills, files that cannot be read, and a second master."""

import asyncio
import json
import os
import random
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError

from tests.master.placing import WRITER, config
from tests.master.process import MASTER, MasterProcess, master_process
from tests.master.world import facts
from tests.support.waiting import eventually

_BOUND_BY_RIGHTS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--")
"""Root without the capabilities that let it read everything: capabilities(7)."""


@pytest.fixture
def flags(tmp_path: Path) -> tuple[str, ...]:
    """Of a master with a small cluster and a state file."""
    (tmp_path / "nodegroup.yaml").write_text(config())
    (tmp_path / "writers").write_text(WRITER)
    return (
        f"--config-file={tmp_path / 'nodegroup.yaml'}",
        f"--api-token-file={tmp_path / 'writers'}",
        f"--state-file={tmp_path / 'state'}",
        "--gpus-per-node=8",
        "--state-save-interval=50ms",
    )


@asynccontextmanager
async def ready(
    flags: Sequence[str], command: Sequence[str] = MASTER
) -> AsyncIterator[MasterProcess]:
    """A master that has its tree."""
    async with master_process(*flags, command=command) as master:
        await has_tree(master)
        yield master


async def has_tree(master: MasterProcess) -> None:
    """Returns when it has its tree: before, it keeps nothing of it."""

    async def is_ready() -> bool:
        return await master.status("/ready") == 200

    await eventually(is_ready)


async def asked_to_hold(master: MasterProcess) -> dict[str, Any]:
    """The answer to one who wants to hold a GPU."""
    job = {"pods": 1, "gpus_per_pod": 1, "hold_s": 600}
    bearer = {"Authorization": f"Bearer {WRITER}"}
    url = master.url + "/v1/holds"
    async with master.session.post(url, json=job, headers=bearer) as answer:
        assert answer.status == 200, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def held(master: MasterProcess) -> str:
    """The id of a hold that was given."""
    return str((await asked_to_hold(master))["hold"]["id"])


async def holds(master: MasterProcess) -> list[str]:
    """The ids of all holds."""
    async with master.session.get(master.url + "/v1/holds") as answer:
        return [hold["id"] for hold in (await answer.json())["holds"]]


async def refused(
    flags: Sequence[str], command: Sequence[str] = MASTER, *, code: int = 2
) -> dict[str, Any]:
    """The last event of a master that does not start."""
    async with master_process(*flags, command=command) as master:
        assert await master.wait() == code
    assert master.log[-1]["event"] == "cannot start"
    return master.log[-1]


@pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None,
    reason="root reads everything, and there is no setpriv to take that away",
)
async def test_a_file_without_rights_ends_the_start_with_2_and_its_holds_stay(
    tmp_path: Path, flags: Sequence[str]
) -> None:
    file = tmp_path / "state"
    command = (*_BOUND_BY_RIGHTS, *MASTER) if os.geteuid() == 0 else MASTER
    async with ready(flags, command) as master:
        given = await held(master)
        assert await master.end(signal.SIGKILL) == -signal.SIGKILL
    before = file.read_bytes()
    file.chmod(0)
    said = await refused(flags, command)
    assert "Permission denied" in said["what"]
    assert str(file) in said["where"]
    assert "can read" in said["fix"]
    assert file.stat().st_mode & 0o777 == 0
    file.chmod(0o600)
    assert file.read_bytes() == before
    async with ready(flags, command) as master:
        assert await holds(master) == [given]


async def test_a_second_master_on_one_file_ends_with_1_and_names_the_first(
    flags: Sequence[str],
) -> None:
    """Systemd starts no service again that ended with 2, though the first may end soon."""
    async with ready(flags) as first:
        given = [await held(first)]
        said = await refused(flags, code=1)
        assert f"process {first.process.pid} on " in said["what"]
        assert "--state-file of its own" in said["fix"]
        given.append(await held(first))
        assert await first.end(signal.SIGKILL) == -signal.SIGKILL
    async with ready(flags) as second:
        assert await holds(second) == given, "the lock has ended with the first"
        assert await second.end() == 0


async def test_of_masters_that_start_at_once_on_one_file_one_runs(
    tmp_path: Path, flags: Sequence[str]
) -> None:
    async def run(stop: asyncio.Event) -> int:
        async with master_process(*flags) as master:
            if len(master.ports) < 2:
                stop.set()
                return await master.wait()
            await stop.wait()
            await has_tree(master)
            return await master.end()

    stop = asyncio.Event()
    assert sorted(await asyncio.gather(run(stop), run(stop))) == [0, 1]
    assert json.loads((tmp_path / "state").read_text())["mode"] == "config"


class _Seen:
    """What a master has shown and promised to one who never stops asking."""

    def __init__(self, master: MasterProcess) -> None:
        self._master = master
        self.generation = 0
        self.given: list[str] = []

    async def pair(self, number: int) -> None:
        """Two nodes are wired to each other, and what is then shown is taken down."""
        one, two = f"n{number}a", f"n{number}b"
        for node, other in ((one, two), (two, one)):
            assert (await self._master.worker(node).full(facts(node, other))).status == 200
        async with self._master.session.get(self._master.url + "/v1/topology") as answer:
            self.generation = (await answer.json())["generation"]

    async def until_it_ends(self) -> None:
        """Reports and holds as fast as they are taken."""
        with suppress(ClientError, OSError):
            for number in range(1, 1000):
                await self.pair(number)
                hold = (await asked_to_hold(self._master)).get("hold")
                self.given += [hold["id"]] if hold else []


@pytest.mark.slow
async def test_whenever_it_is_asked_to_end_what_it_showed_and_promised_is_on_disk(
    tmp_path: Path, token_flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At moments that a seed chose: while it saves, rests, publishes, gives."""
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    (tmp_path / "writers").write_text(WRITER)
    flags = ("--mode=dragonfly", token_flag, f"--api-token-file={tmp_path / 'writers'}")
    chance = random.Random(11)  # noqa: S311
    for attempt in range(4):
        file = f"--state-file={tmp_path / str(attempt)}"
        async with master_process(
            *flags, file, "--gpus-per-node=8", "--state-save-interval=50ms"
        ) as master:
            seen = _Seen(master)
            await seen.pair(0)
            await has_tree(master)
            asking = asyncio.create_task(seen.until_it_ends())
            await asyncio.sleep(chance.uniform(0.0, 0.5))
            assert await master.end() == 0
            await asking
        kept = json.loads((tmp_path / str(attempt)).read_text())
        assert kept["memory"]["generation"] >= seen.generation
        assert {hold["id"] for hold in kept["holds"]["holds"]} >= set(seen.given)
