"""`topo doctor` where tokens are missing, wrong, taken back or refused."""

import asyncio
from pathlib import Path

import pytest

from tests.cli.doctor.examined import examined, sole
from tests.master.world import TOKEN, facts, running
from tests.support.waiting import eventually

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def token_flag(tmp_path: Path) -> str:
    """The flag that lets workers with the shared token in."""
    path = tmp_path / "worker-token"
    path.write_text(TOKEN + "\n")
    return f"--worker-token-file={path}"


async def test_a_wrong_worker_token_is_named_while_reports_are_refused(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        for _ in range(3):
            refused = await master.worker("n1", token="another").full(facts("n1"))
            assert refused.status == 401
        finding = await sole(master, "unknown-worker-token")
        assert "refused" in finding.what
        assert "the last from 127.0.0.1: it carried a token" in finding.what
        assert "--worker-token-file" in finding.next_step


async def test_a_token_that_is_missing_is_told_from_a_wrong_one(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        assert (await master.worker("n1", token=None).full(facts("n1"))).status == 401
        assert "it carried no token" in (await sole(master, "unknown-worker-token")).what


async def test_a_master_that_lets_nobody_in_says_so() -> None:
    async with running("--mode=dragonfly") as master:
        assert (await master.worker("n1").full(facts("n1"))).status == 401
        finding = await sole(master, "no-worker-tokens")
        assert finding.next_step.startswith("start the master with --worker-token-file")


async def test_workers_whose_token_was_taken_back_are_silent_for_that_reason(
    tmp_path: Path,
) -> None:
    """`is topo-worker running?` would send the operator to the wrong place."""
    path = tmp_path / "tokens"
    path.write_text("first\n")
    flags = (f"--worker-token-file={path}", "--beat-interval=1")
    async with running("--mode=dragonfly", *flags) as master:
        first, second = master.worker("n1", "first"), master.worker("n2", "first")
        assert (await first.full(facts("n1", "n2"))).status == 200
        assert (await second.full(facts("n2", "n1"))).status == 200
        path.write_text("second\n")

        async def is_refused() -> bool:
            await asyncio.sleep(1)
            return (await first.beat()).status == (await second.beat()).status == 401

        await eventually(is_refused)

        finding = await sole(master, "unknown-worker-token")
        while "2 nodes fell silent about then: n1, n2" not in finding.what:
            finding = await sole(master, "unknown-worker-token")


async def test_a_node_that_fell_silent_before_the_refusals_is_a_finding_of_its_own(
    token_flag: str,
) -> None:
    """Else a wrong token on one node hides that the worker of another has died."""
    async with running("--mode=dragonfly", token_flag, "--beat-interval=1") as master:
        speaking, _ = await master.pair("n1", "n2")
        for _ in range(300):
            await asyncio.sleep(1)
            await speaking.beat()
        assert (await master.worker("n3", token="another").full(facts("n3"))).status == 401

        async def are_two() -> bool:
            await speaking.beat()
            found = {each.code: each for each in (await examined(master)).findings}
            silent, refused = found.get("worker-stale"), found.get("unknown-worker-token")
            if silent is None or refused is None:
                return False
            assert (silent.subjects, "fell silent" in refused.what) == (("n2",), False)
            assert silent.since_s is not None
            assert 290.0 < silent.since_s < 300.0
            assert refused.since_s is not None
            assert refused.since_s < 10.0
            return True

        await eventually(are_two)


async def test_refused_tokens_are_forgotten_a_minute_after_the_last(token_flag: str) -> None:
    """A worker that is refused tries again within seconds; a minute of quiet is the end of it."""
    async with running("--mode=auto", token_flag) as master:
        await master.pair("n1", "n2")
        assert (await master.worker("n3", token="another").full(facts("n3"))).status == 401
        await sole(master, "unknown-worker-token")
        for quiet_s, is_listed in ((50, True), (15, False)):
            await asyncio.sleep(quiet_s)
            codes = {finding.code for finding in (await examined(master)).findings}
            assert ("unknown-worker-token" in codes) is is_listed


async def test_reports_that_are_not_understood_are_no_missing_workers(token_flag: str) -> None:
    """Workers of another release, or a node too many: they run, and the master says what ails."""
    async with running("--mode=dragonfly", token_flag) as master:
        master.service.worker_port.sessions.max_nodes = 1
        worker = master.worker("n1")
        assert (await worker.post(b'{"v": 99}')).status == 400
        finding = await sole(master, "malformed-report")
        assert "run workers of the master's release" in finding.next_step
        assert (await worker.full(facts("n1"))).status == 200
        assert (await master.worker("n2").full(facts("n2"))).status == 503

        async def is_said() -> bool:
            found = {finding.code: finding for finding in (await examined(master)).findings}
            return "the last from n2" in getattr(found.get("too-many-nodes"), "what", "")

        await eventually(is_said)


async def test_a_name_that_is_taken_is_listed_with_the_refusal_s_own_fix(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        await master.pair("n1", "n2")
        other = await master.worker("n1").full(facts("n1", system="another-machine"))
        assert other.status == 409
        finding = await sole(master, "duplicate-worker")
        assert finding.next_step == other.json["fix"]


async def test_ages_move_and_the_tag_of_what_is_wrong_does_not(token_flag: str) -> None:
    """Who asks again and again is told once."""
    async with running("--mode=dragonfly", token_flag, "--beat-interval=1") as master:
        speaking, _ = await master.pair("n1", "n2")
        ages: list[float] = []
        tags: set[str] = set()
        while len(ages) < 30:
            await asyncio.sleep(1)
            await speaking.beat()
            answer = await master.get("/v1/findings")
            found = answer.json["findings"]
            if [finding["code"] for finding in found] == ["worker-stale"]:
                ages.append(found[0]["since_s"])
                tags.add(answer.headers["ETag"])
        assert ages == sorted(ages)
        assert (len(set(ages)) > 10, len(tags)) == (True, 1)
