"""Masters as processes: what becomes of the one that leads, and of its exit code."""

import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.kube.leader_election.lease_server import Fault
from tests.master.process import MasterProcess, master_process
from tests.master.world import TOKEN, facts
from tests.replicas.installation import Installation, becomes, installation
from tests.support.ports import free_ports

pytestmark = pytest.mark.slow
QUICK = ("--lease-duration=9s",)


@pytest.fixture
async def installed(tmp_path: Path) -> AsyncIterator[Installation]:
    async with installation(tmp_path) as made:
        (tmp_path / "workers").write_text(TOKEN)
        yield made


def master(
    installed: Installation, name: str, *flags: str
) -> AbstractAsyncContextManager[MasterProcess]:
    """A master with quick terms."""
    workers = f"--worker-token-file={installed.home / 'workers'}"
    mode = ("--mode=dragonfly", workers, "--gpus-per-node=1", *QUICK)
    api, reports = free_ports((0, 0))
    return master_process(*installed.flags(name, (api, reports)), *mode, *flags)


async def holds(installed: Installation, name: str) -> None:
    """Returns when a master of this pod's name holds the lease."""

    async def held() -> bool:
        stored = installed.lease.stored
        return stored is not None and stored["spec"]["holderIdentity"].startswith(f"{name}_")

    await becomes(held)


async def test_workers_go_on_through_a_kill_of_the_leader(installed: Installation) -> None:
    async with master(installed, "a") as leader:
        await holds(installed, "a")
        async with master(installed, "b") as follower:
            workers = [follower.worker(name) for name in ("n1", "n2")]

            async def reported() -> bool:
                answers = [
                    await worker.full(facts(worker.node, other.node))
                    for worker, other in zip(workers, reversed(workers), strict=True)
                ]
                return all(answer.status == 200 for answer in answers)

            await becomes(reported)

            async def shown() -> bool:
                return await follower.status("/node_group") == 200

            await becomes(shown)
            assert await leader.status("/node_group") == 200
            assert await leader.end(signal.SIGKILL) == -signal.SIGKILL
            assert await follower.status("/node_group") == 200, "what it knows it goes on showing"
            await holds(installed, "b")
            await becomes(reported)
            assert await follower.status("/node_group") == 200


async def test_a_leader_that_loses_its_lease_ends_with_the_reason(installed: Installation) -> None:
    async with master(installed, "a") as leader:
        await holds(installed, "a")
        installed.fault = lambda: Fault(refused=503)
        assert await leader.wait() == 1
        (died,) = [line for line in leader.log if line["event"] == "background task died"]
        assert died["task"] == "lease"
        assert "not renewed within 5 s" in died["reason"]


async def test_a_leader_that_ends_well_gives_the_lease_back(installed: Installation) -> None:
    async with master(installed, "a") as leader:
        # Whoever was not answered yet does not know that it leads.
        await leader.logged("who leads")
        told = [line for line in leader.log if line["event"] == "who leads"]
        assert [line["this_master"] for line in told] == [True]
        assert await leader.end() == 0
        assert installed.lease.spec()["holderIdentity"] == ""


async def test_a_leader_that_ended_without_the_api_server_is_started_again_and_answers(
    installed: Installation,
) -> None:
    """What it shows is its copy, without a report and without the lease, until it leads again."""
    copy = ("--state-config-maps", f"--state-file={installed.home / 'copy' / 'state.json'}")
    async with master(installed, "a", *copy) as leader:
        await holds(installed, "a")

        async def shown() -> bool:
            return await _pair_reports(leader) and await leader.status("/node_group") == 200

        await becomes(shown)
        before = await _body(leader)
        installed.is_away = True
        assert await leader.wait() == 1
    written = len(installed.lease.writes)
    async with master(installed, "a", *copy) as again:
        assert await _body(again) == before
        assert not await _pair_reports(again)
        assert len(installed.lease.writes) == written
        installed.is_away = False
        await becomes(lambda: _pair_reports(again))
        assert await _body(again) == before


async def _pair_reports(running: MasterProcess) -> bool:
    answers = [
        await running.worker(name).full(facts(name, other))
        for name, other in (("n1", "n2"), ("n2", "n1"))
    ]
    return all(answer.status == 200 for answer in answers)


async def _body(running: MasterProcess) -> bytes:
    async with running.session.get(running.url + "/node_group") as answer:
        assert answer.status == 200
        return await answer.read()
