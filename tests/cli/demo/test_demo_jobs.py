"""`topo demo submit`, `jobs` and `finish` on a simulated cluster, without a master."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Topo
from tests.sim.kubernetes.served import Webhook, allow, cluster_in
from tests.support.waiting import eventually
from topo.cli.demo_directory import Demo, DemoDirectory
from topo.cli.exit_codes import Exit


def warning(request: Any) -> dict[str, Any]:
    return {**allow(request), "warnings": ["a key is misspelt"]}


async def listed(topo: Topo) -> dict[str, str]:
    """The jobs and their states."""
    shown = await asyncio.to_thread(topo, "demo", "jobs", "-o", "json")
    return {each["name"]: each["state"] for each in json.loads(shown.stdout)}


async def test_jobs_are_submitted_listed_and_ended(
    home: DemoDirectory, topo: Topo, tmp_path: Path
) -> None:
    webhook, folder = Webhook(tmp_path), tmp_path / "kubernetes"
    async with cluster_in(folder, webhook):
        home.publish(Demo("http://127.0.0.1:9", "/x", (), "0x2x2", kubernetes=str(folder)))
        assert "no jobs" in (await asyncio.to_thread(topo, "demo", "jobs")).stdout
        webhook.answer = warning
        made = await asyncio.to_thread(topo, "demo", "submit", "--pods", "4", "--within", "rack")
        assert made.exit_code == Exit.OK, made.stderr
        assert made.stdout.startswith("train-1 is submitted")
        assert made.stderr == "Warning: a key is misspelt\n"
        annotations = webhook.reviews[0]["request"]["object"]["metadata"]["annotations"]
        assert annotations == {
            "metax-tech.com/gpu-group-size": "16",
            "metax-tech.com/gpu-group-within": "rack",
        }
        await asyncio.to_thread(topo, "demo", "submit", "--pods", "1", "--group-size", "0")

        async def the_first_runs() -> bool:
            return await listed(topo) == {"train-1": "running", "train-2": "waits"}

        await eventually(the_first_runs)
        table = (await asyncio.to_thread(topo, "demo", "jobs")).stdout
        assert "node-1 node-2 node-3 node-4" in table
        again = await asyncio.to_thread(topo, "demo", "submit", "train-1")
        assert again.exit_code == Exit.REFUSED
        assert "already exists" in again.stderr
        ended = await asyncio.to_thread(topo, "demo", "finish", "train-1")
        assert ended.stdout == "train-1 is over: 4 pods have ended\n"

        async def the_second_runs() -> bool:
            return await listed(topo) == {"train-1": "finished", "train-2": "running"}

        await eventually(the_second_runs)
        await asyncio.to_thread(topo, "demo", "submit", "late", "--gpus", "9")
        gone = await asyncio.to_thread(topo, "demo", "finish", "late")
        assert gone.stdout == "late is deleted: nothing of it ran\n"
        unknown = await asyncio.to_thread(topo, "demo", "finish", "nope")
        assert "there are train-1, train-2" in unknown.stderr
    away = await asyncio.to_thread(topo, "demo", "jobs")
    assert away.exit_code == Exit.UNREACHABLE
    assert "the demo's API server does not answer" in away.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("submit", "No Name"), "use small letters, digits and -"),
        (("submit",), "start it without --no-jobs"),
        (("jobs",), "start it without --no-jobs"),
        (("finish", "x"), "start it without --no-jobs"),
    ],
)
def test_what_a_demo_cannot_do_is_refused_with_what_can_be_done(
    home: DemoDirectory, topo: Topo, arguments: tuple[str, ...], words: str
) -> None:
    home.publish(Demo("http://127.0.0.1:9", "/x", (), "0x2x2"))
    shown = topo("demo", *arguments)
    assert shown.exit_code in {Exit.USAGE, Exit.FINDING}
    assert words in " ".join(shown.stderr.split())
