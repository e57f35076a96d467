"""Sweeps of a fabric that reach a follower, and a leader that has none of their texts yet."""

import secrets
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.master.sources.test_fabric_sweeps import Sweeping
from tests.master.world import Master
from tests.replicas.installation import Installation, becomes, leads
from tests.support.fabric import pairs
from tests.support.waiting import eventually

pytestmark = pytest.mark.virtual_time


async def test_a_dump_reaches_the_leader_through_a_follower_and_the_next_leader_again(
    installed: Installation, tmp_path: Path
) -> None:
    """A text of two megabytes when packed; a node that is not named is refused by the follower."""
    tokens = tmp_path / "worker-tokens"
    tokens.write_text("gpu-01 first-secret\ngpu-02 second-secret\n")
    flags = (
        "--mode=fabric",
        f"--fabric-dir={tmp_path / 'none'}",
        f"--worker-token-file={tokens}",
        "--fabric-sweep-nodes=gpu-01",
    )
    text = f"# {secrets.token_hex(2 << 20)}\n{pairs(2).text()}"

    async def reads_it(master: Master) -> bool:
        sources = (await master.get("/v1/topology")).json["sources"]
        return any(each["detail"].startswith("1 dump: 3 switches") for each in sources)

    first = AsyncExitStack()
    leader = await first.enter_async_context(installed.master("a", *flags))
    await leads(leader)
    async with first, installed.master("b", *flags) as follower:
        await eventually(lambda: bool(follower.service.replica.role.reports_url))
        node = Sweeping(follower)
        await node.swept(text)
        await becomes(lambda: reads_it(leader))
        assert (await Sweeping(follower, "second-secret").tell(text)).status == 403
        await first.aclose()
        await leads(follower)
        await node.swept(text)
        await becomes(lambda: reads_it(follower))
