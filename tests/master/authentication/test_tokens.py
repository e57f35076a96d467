"""A token that is removed ends at once, whatever else is wrong with its file; the rest goes on."""

import asyncio
import json
import resource
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from master.authentication.tokens import CONFIRM_S, CONFIRMATIONS, GRACE_S
from master.composition.service import build_service
from tests.master.placing import WRITER, config, placing
from tests.master.world import Master, facts, running, settings
from tests.support.waiting import CEILING_S, eventually
from topo.cli.client.client import connect, target
from topo.cli.diagnosis import checkup
from topo.kit.files import LOOK_S
from topo.model.conditions.condition import Severity
from topo.model.errors import BadInputError
from topo.model.wire import REPORTS_PATH

pytestmark = pytest.mark.virtual_time

WITHIN_S = LOOK_S + CONFIRM_S + 0.001
"""How soon a change of the file counts."""
ONE, TWO = "token-of-one", "token-of-two"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text(f"n1 {ONE}\nn2 {TWO}\n")
    return file


@asynccontextmanager
async def following(path: Path) -> AsyncIterator[Master]:
    """A master that follows the file, to which both workers have reported."""
    async with running("--mode=dragonfly", f"--worker-token-file={path}") as master:
        assert await statuses(master) == [200, 200]
        yield master


async def statuses(master: Master) -> list[int]:
    """What is answered to the two workers now."""
    said = (("n1", ONE), ("n2", TWO))
    return [(await master.worker(n, t).full(facts(n))).status for n, t in said]


async def warning(master: Master) -> dict[str, str]:
    """The warning about the file; empty where there is none."""
    warnings: list[dict[str, str]] = (await master.get("/v1/topology")).json["warnings"]
    return next((each for each in warnings if each["code"] == "worker-token-file"), {})


async def metric(master: Master, name: str) -> float:
    """The value of a series."""
    lines = (await master.get("/metrics")).body.decode().splitlines()
    return float(next(line for line in lines if line.startswith(name)).split()[-1])


def put(path: Path, text: str) -> None:
    """Another content, whole at once: a look in a thread never finds it empty or cut."""
    (fresh := path.with_name("fresh")).write_text(text)
    fresh.replace(path)


def loop(path: Path) -> None:
    """A link that leads to itself: there, and not to be read, not even by root."""
    path.unlink()
    path.symlink_to(path.name)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


async def test_a_line_that_is_removed_ends_its_token_and_no_other(path: Path) -> None:
    async with following(path) as master:
        put(path, f"n1 {ONE}\n")
        await asyncio.sleep(WITHIN_S)
        assert await statuses(master) == [200, 401]
        assert await warning(master) == {}
        put(path, f"n1 {ONE}\nn2 {TWO}\n")
        await asyncio.sleep(WITHIN_S)
        assert await statuses(master) == [200, 200]


async def test_good_lines_count_beside_a_bad_one_that_is_named_and_not_shown(path: Path) -> None:
    async with following(path) as master:
        with capture_logs() as logs:
            put(path, f"n1 {ONE}\nn2 {TWO} S3KRET-tail\n")
            await asyncio.sleep(WITHIN_S)
        assert await statuses(master) == [200, 401]
        told = await warning(master)
        assert "line 2: 3 words" in told["text"]
        assert "<node-name> <token>" in told["fix"]
        assert await metric(master, 'topo_master_tokens{whose="workers"}') == 1
        assert await metric(master, 'topo_master_token_lines_refused{whose="workers"}') == 1
        assert await metric(master, 'topo_master_warnings{code="worker-token-file"}') == 1
        (error,) = [line for line in logs if line["log_level"] == "error"]
        assert error["where"] == str(path)
        assert "S3KRET" not in json.dumps([logs, told])
        put(path, f"n1 {ONE}\nn2 {TWO}\n")
        await asyncio.sleep(WITHIN_S)
        assert await warning(master) == {}
        assert await metric(master, 'topo_master_warnings{code="worker-token-file"}') == 0


async def test_a_token_for_two_holders_is_nobodys_and_both_lines_are_named(path: Path) -> None:
    async with following(path) as master:
        put(path, f"n1 {ONE}\n{TWO}\nn2 {TWO}\n")
        await asyncio.sleep(WITHIN_S)
        assert await statuses(master) == [200, 401]
        assert "lines 2, 3" in (await warning(master))["text"]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda path: put(path, ""), "no token in the file"),
        (lambda path: put(path, "# all gone\n"), "no token in the file"),
        (lambda path: put(path, "one two three\n"), "no token in the file"),
        (Path.unlink, "does not exist"),
        (folder, "a directory"),
    ],
    ids=["emptied", "comments", "only-bad", "deleted", "folder"],
)
async def test_a_file_without_tokens_lets_nobody_in_and_says_so_aloud(
    path: Path, change: Callable[[Path], object], word: str
) -> None:
    async with following(path) as master:
        with capture_logs() as logs:
            change(path)
            await asyncio.sleep(WITHIN_S)
        assert await statuses(master) == [401, 401]
        assert [line["log_level"] for line in logs].count("error") == 1
        told = await warning(master)
        assert word in told["text"]
        assert "nobody is let in" in told["text"]
        assert told["fix"]
        assert await metric(master, 'topo_master_tokens{whose="workers"}') == 0
        async with connect(target(master.url, None, None)) as client:
            findings = (await checkup.examine(client)).findings
        (found,) = [each for each in findings if each.code == "worker-token-file"]
        assert found.severity is Severity.WRONG
        assert "nobody is let in" in found.what
        health = (await master.get("/healthz")).json
        assert (health["status"], health["warnings"][0]["code"]) == ("ok", "worker-token-file")


async def test_a_file_that_cannot_be_read_keeps_its_tokens_for_a_while_and_no_longer(
    path: Path,
) -> None:
    """It says nothing of its tokens: neither that they are good, nor that they have ended."""
    async with following(path) as master:
        loop(path)
        await asyncio.sleep(WITHIN_S)
        assert await statuses(master) == [200, 200]
        assert "2 tokens read before count for 300 s" in (await warning(master))["text"]
        await asyncio.sleep(GRACE_S - 1)
        assert await statuses(master) == [200, 200]
        await asyncio.sleep(1 + WITHIN_S)
        assert await statuses(master) == [401, 401]
        assert "nobody is let in" in (await warning(master))["text"]
        path.unlink()
        path.write_text(f"n1 {ONE}\n")
        await asyncio.sleep(WITHIN_S)
        assert await statuses(master) == [200, 401]
        assert await warning(master) == {}


async def test_to_hide_and_show_a_file_in_turn_buys_no_more_than_one_while(path: Path) -> None:
    """Another reason why it cannot be read does not begin the while anew."""
    async with following(path) as master:
        loop(path)
        await asyncio.sleep(GRACE_S / 2)
        path.unlink()
        path.write_bytes(b"x" * (5 << 20))  # beyond the limit
        await asyncio.sleep(GRACE_S / 2 + 2 * WITHIN_S)
        assert await statuses(master) == [401, 401]


@pytest.mark.slow
async def test_a_process_without_a_descriptor_left_keeps_its_tokens_until_it_has_one(
    path: Path,
) -> None:
    """The file is not at fault, and nobody may lock the workers out by opening connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with following(path) as master:
        with capture_logs() as logs:
            put(path, f"n1 {ONE}\n")
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
            try:
                await asyncio.sleep(GRACE_S + 2 * WITHIN_S)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert [line for line in logs if line["event"] == "tokens in force"] == []
        told = str([line for line in logs if line["log_level"] == "error"])
        assert "Too many open files; 2 tokens read before count until one can be" in told
        assert "LimitNOFILE=" in told
        await asyncio.sleep(WITHIN_S)
        assert await statuses(master) == [200, 401]
        assert await warning(master) == {}


async def test_an_editor_that_writes_anew_locks_nobody_out(path: Path) -> None:
    """The file is absent, then empty, then cut, for less than a confirmation takes."""
    whole = path.read_text()
    async with following(path) as master:
        for _ in range(3):
            for part in (None, "", whole[:9]):
                path.unlink(missing_ok=True)
                if part is not None:
                    path.write_text(part)
                await asyncio.sleep(CONFIRM_S * 0.3)
                assert await statuses(master) == [200, 200]
            put(path, whole)
            await asyncio.sleep(WITHIN_S)
            assert await statuses(master) == [200, 200]


async def test_a_file_that_never_rests_counts_as_it_stands(path: Path) -> None:
    """Who writes it again and again cannot keep a removed token alive."""
    async with following(path) as master:
        for number in range(20 * CONFIRMATIONS):
            put(path, f"n1 {ONE}\n# {number}\n")
            await asyncio.sleep(CONFIRM_S / 2)
        assert await statuses(master) == [200, 401]


async def test_the_swap_of_a_mounted_secret_is_never_an_absence(tmp_path: Path) -> None:
    """Kubernetes renames a link over `..data`: there is no moment without a file."""
    for version, text in (("v1", f"n1 {ONE}\nn2 {TWO}\n"), ("v2", f"n1 {ONE}\n")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "tokens").write_text(text)
    (tmp_path / "..data").symlink_to("v1")
    (tmp_path / "tokens").symlink_to("..data/tokens")
    async with following(tmp_path / "tokens") as master:
        with capture_logs() as logs:
            (tmp_path / "..tmp").symlink_to("v2")
            (tmp_path / "..tmp").replace(tmp_path / "..data")
            await asyncio.sleep(WITHIN_S)
        assert await statuses(master) == [200, 401]
        assert [line["number"] for line in logs if line["event"] == "tokens in force"] == [1]
        assert [line for line in logs if line["log_level"] == "error"] == []


async def test_a_report_whose_token_ended_while_its_body_came_is_refused(path: Path) -> None:
    async with following(path) as master:
        port = int(master.reports_url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = json.dumps({"node": "n2", "instance": "i-stolen", "seq": 0, "kind": "beat"}).encode()
        head = (
            f"POST {REPORTS_PATH} HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer {TWO}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body[:5])
        await asyncio.sleep(WITHIN_S)
        put(path, f"n1 {ONE}\n")
        await asyncio.sleep(WITHIN_S)
        writer.write(body[5:])
        assert (await reader.readline()).split()[1] == b"401"
        writer.close()


async def test_a_hold_whose_token_ended_while_its_body_came_is_refused(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        port = int(caller.master.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = json.dumps({"pods": 1, "gpus_per_pod": 8, "hold_s": 60}).encode()
        head = (
            f"POST /v1/holds HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer {WRITER}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body[:5])
        await asyncio.sleep(WITHIN_S)
        put(tmp_path / "writers", "ops another-token\n")
        await asyncio.sleep(WITHIN_S)
        writer.write(body[5:])
        assert (await reader.readline()).split()[1] == b"401"
        writer.close()
        assert await caller.holds() == []


async def test_a_writer_whose_token_is_removed_holds_nothing_more(tmp_path: Path) -> None:
    (tmp_path / "nodegroup.yaml").write_text(config())
    writers = tmp_path / "writers"
    writers.write_text("ops first-writer\ndev second-writer\n")
    flags = (
        f"--config-file={tmp_path / 'nodegroup.yaml'}",
        f"--api-token-file={writers}",
        "--gpus-per-node=8",
    )
    async with running(*flags) as master:
        await master.ready()

        async def held(token: str) -> int:
            job: dict[str, Any] = {"pods": 1, "gpus_per_pod": 8, "hold_s": 60}
            bearer = {"Authorization": f"Bearer {token}"}
            url = master.url + "/v1/holds"
            async with master.session.post(url, json=job, headers=bearer) as answer:
                return answer.status

        assert [await held("first-writer"), await held("second-writer")] == [200, 200]
        put(writers, "ops first-writer\n")
        await asyncio.sleep(WITHIN_S)
        assert [await held("first-writer"), await held("second-writer")] == [200, 401]
        writers.unlink()
        await asyncio.sleep(WITHIN_S)
        assert await held("first-writer") == 401
        warnings = (await master.get("/v1/topology")).json["warnings"]
        assert [each["code"] for each in warnings] == ["api-token-file"]
        assert await metric(master, 'topo_master_tokens{whose="writers"}') == 0


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["no token"]),
        ("good\none two S3KRET\nn1 same\nn2 same\n", ["line 2", "3 words", "1 more fault"]),
    ],
)
def test_a_start_with_a_file_that_is_not_all_good_is_refused(
    path: Path, text: str, parts: list[str]
) -> None:
    """Somebody looks: it is better not to begin than to leave nodes out."""
    path.write_text(text)
    for flag in ("--worker-token-file", "--api-token-file"):
        with pytest.raises(BadInputError) as error:
            build_service(settings("--mode=dragonfly", f"{flag}={path}"))
        assert all(part in str(error.value) for part in [*parts, str(path)])
        assert "S3KRET" not in str(error.value)


async def test_anonymous_workers_stay_out_while_there_is_a_token_file(path: Path) -> None:
    """A file that says nobody is not the same as none."""
    flags = (f"--worker-token-file={path}",)
    async with running("--mode=dragonfly", *flags, "--allow-anonymous-workers") as master:
        path.unlink()

        async def is_out() -> bool:
            return (await master.worker("n1", None).beat()).status == 401

        assert await is_out()
        await asyncio.sleep(WITHIN_S)
        async with asyncio.timeout(CEILING_S):
            await eventually(is_out)
        assert [(await master.worker("n1", token).beat()).status for token in (ONE, None)] == [
            401,
            401,
        ]
