"""Sweeps that nodes send: who is believed, what is asked for, what stays when one falls silent."""

import asyncio
import gzip
import hashlib
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import pytest

from master.sources.fabric.dumps import Dump
from master.sources.workers import sweep_calls, sweeps
from tests.master.sources.test_fabric_files import BOTH, reported, shows, source_of, warned
from tests.master.world import Answer, Master, running
from tests.support.fabric import pairs
from tests.support.waiting import eventually
from topo.model.ids import NodeName
from topo.model.wire import MAX_SWEPT_PORTS, SWEEPS_PATH, SweepReport, SweptPort

pytestmark = pytest.mark.virtual_time
TOKENS = {"gpu-01": "first-secret", "gpu-02": "second-secret", None: "worker-secret-1"}
PORT = "mlx5_0-1"


def digest(text: str) -> str:
    """The digest of a dump, as its worker makes it."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Sweeping:
    """A node that sweeps, as the master sees it."""

    master: Master
    token: str = TOKENS["gpu-01"]

    async def post(self, path: str, body: bytes) -> Answer:
        """Sends these bytes."""
        url = f"{self.master.reports_url}{path}"
        headers = {"Authorization": f"Bearer {self.token}"}
        async with self.master.session.post(url, data=BytesIO(body), headers=headers) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def tell(self, text: str = "", trouble: str = "", age_s: float = 0) -> Answer:
        """Lists a dump with this text; without one says what keeps it from sweeping."""
        swept = (SweptPort(port=PORT, digest=digest(text), age_s=age_s),) if text else ()
        report = SweepReport(ports=swept, trouble=trouble)
        return await self.post(SWEEPS_PATH, report.model_dump_json().encode())

    async def send(self, text: str, packed: bytes | None = None) -> Answer:
        """Sends the text of a dump."""
        packed = gzip.compress(text.encode()) if packed is None else packed
        return await self.post(f"{SWEEPS_PATH}/{PORT}/{digest(text)}", packed)

    async def swept(self, text: str) -> None:
        """Lists a dump, and sends it as it is wanted."""
        assert (await self.tell(text)).json["want"] == [PORT]
        assert (await self.send(text)).json["want"] == []


@pytest.fixture
def flags(tmp_path: Path) -> tuple[str, ...]:
    """A master in mode fabric without a folder, which believes gpu-01."""
    path = tmp_path / "worker-tokens"
    path.write_text("".join(f"{node or ''} {token}\n" for node, token in TOKENS.items()))
    folder = f"--fabric-dir={tmp_path / 'none'}"
    return "--mode=fabric", folder, f"--worker-token-file={path}", "--fabric-sweep-nodes=gpu-01"


async def test_the_dump_of_a_named_node_makes_the_tree_and_is_asked_for_once(
    flags: tuple[str, ...],
) -> None:
    """No folder. The same text again is not wanted; another one is, and a moved cable follows."""
    built = pairs(2)
    async with running(*flags) as master:
        node = Sweeping(master)
        await reported(master, built)
        await node.swept(built.text())
        await shows(master, BOTH)
        assert (await source_of(master))["warnings"] == []
        assert (await node.tell(built.text())).json["want"] == []
        assert (await node.send(built.text())).status == 503
        moved = built.adapters["gpu-02"][0]
        built.fabric.cut(moved)
        built.fabric.plug(moved, built.leaves["ib-su2-leaf-01"])
        await node.swept(built.text())
        moved_leaves = {
            "ib-su1-leaf-01": ["gpu-01"],
            "ib-su2-leaf-01": ["gpu-02", "gpu-03", "gpu-04"],
        }
        await shows(master, moved_leaves)
        metrics = (await master.get("/metrics")).body.decode()
        assert 'topo_master_fabric_dump_age_seconds{dump="gpu-01 mlx5_0-1"} ' in metrics


@pytest.mark.parametrize("token", [TOKENS["gpu-02"], TOKENS[None], "unknown"])
async def test_what_anybody_else_says_of_the_fabric_is_refused_and_told(
    flags: tuple[str, ...], token: str
) -> None:
    """Another node, a token of any node, a stranger: nothing of the body is read."""
    built = pairs(2)
    async with running(*flags) as master:
        stranger = Sweeping(master, token)
        for answer in (await stranger.tell(built.text()), await stranger.send("", b"no gzip")):
            assert answer.status == (401 if token == "unknown" else 403)
        code = "unknown-worker-token" if token == "unknown" else "unnamed-sweeper"

        async def is_told() -> bool:
            sources = (await master.get("/v1/topology")).json["sources"]
            (workers,) = (each for each in sources if each["source"] == "workers")
            return [each["code"] for each in workers["warnings"]] == [code]

        await eventually(is_told)
        assert (await source_of(master))["state"] != "ok"


async def test_a_node_that_sweeps_no_more_is_told_and_takes_nothing_away(
    flags: tuple[str, ...],
) -> None:
    """It never spoke; it spoke; it cannot sweep; it is silent."""
    built = pairs(2)
    async with running(*flags, "--beat-interval=1") as master:
        await asyncio.sleep(22)
        await warned(master, "gpu-01 is to sweep the fabric, and nothing came from it")
        await reported(master, built)
        node = Sweeping(master)
        await node.swept(built.text())
        await shows(master, BOTH)
        await node.tell(trouble="no InfiniBand port of this host is active")
        await warned(master, "gpu-01 did not sweep: no InfiniBand port of this host is active")
        await asyncio.sleep(4)
        await warned(master, "gpu-01 sweeps no more; what its dumps said stays")
        await shows(master, BOTH)
        await node.tell(built.text())

        async def is_quiet() -> bool:
            return bool((await source_of(master))["warnings"] == [])

        await eventually(is_quiet)


async def test_a_text_that_is_no_whole_dump_is_told_and_takes_nothing_away(
    flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off; not packed; cut while packed; a bomb; too large to be taken; none of the tool."""
    monkeypatch.setattr(sweeps, "MAX_DUMP_BYTES", 1 << 20)
    texts = replace(sweep_calls.TEXTS, max_bytes=1 << 16)
    monkeypatch.setattr(sweep_calls, "TEXTS", texts)
    built = pairs(2)
    text = built.text()
    async with running(*flags) as master:
        await reported(master, built)
        node = Sweeping(master)
        await node.swept(text)
        await shows(master, BOTH)
        cut = text[: text.rindex("\nvendid")]
        packed = gzip.compress(text.encode())
        for number, (sent, what) in enumerate(
            (
                (gzip.compress(cut.encode()), "it is cut off"),
                (text.encode(), "the text is not packed by gzip"),
                (packed[:-20], "the packed text ends too early"),
                (packed + packed, "goes on after its end"),
                (gzip.compress(bytes(2 << 20)), "the dump has more than"),
                (gzip.compress(b"a secret of somebody\n"), "this line is none of ibnetdiscover"),
            )
        ):
            other = f"{text}# {number}\n"
            assert (await node.tell(other)).json["want"] == [PORT]
            assert (await node.send(other, sent)).status == 200
            await warned(master, what)
            assert "secret" not in str(await source_of(master))
        assert (await node.tell("larger")).json["want"] == [PORT]
        assert (await node.send("larger", bytes((1 << 16) + 1))).status == 413
        await shows(master, BOTH)


async def test_a_port_that_is_swept_no_more_is_forgotten_once_a_file_has_its_switches(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    built = pairs(2)
    async with running(*flags) as master:
        await reported(master, built)
        node = Sweeping(master)
        await node.swept(built.text())
        await shows(master, BOTH)
        await node.tell()
        await warned(master, "gpu-01 mlx5_0-1 is gone; what it said stays")
        (tmp_path / "none").mkdir()
        (tmp_path / "none/subnet.txt").write_text(built.text())

        async def is_quiet() -> bool:
            return bool((await source_of(master))["warnings"] == [])

        await eventually(is_quiet)
        await shows(master, BOTH)


def test_of_two_dumps_that_differ_the_one_found_last_counts_without_its_text_again() -> None:
    """The node swept at 10:00 and at 12:00, alike; the file between them is another fabric."""
    built = pairs(2)
    node, file = Dump("gpu-01 mlx5_0-1", ""), Dump("subnet.txt", "")
    both = (node, file)
    text = built.text().encode()
    assert node.take(text, 1000)
    assert file.take(text, 1100)
    node.found_at = 1200
    assert not node.renew(both)  # they say the same
    built.fabric.cut(built.adapters["gpu-02"][0])
    assert file.take(built.text().encode(), 1150)
    assert node.renew(both)
    assert not node.renew(both)
    assert node.good is not None
    assert node.good.made_at == 1200


def test_a_name_twice_and_a_mode_without_dumps_are_refused(flags: tuple[str, ...]) -> None:
    from tests.master.world import settings  # noqa: PLC0415 - for this alone

    with pytest.raises(AssertionError, match="some may stand twice"):
        settings(*flags[:3], "--fabric-sweep-nodes=gpu-01,gpu-01")
    with pytest.raises(AssertionError, match="mode dragonfly reads no dump"):
        settings("--mode=dragonfly", "--fabric-sweep-nodes=gpu-01")


def test_a_dump_grows_old_while_its_node_cannot_sweep() -> None:
    """Only a sweep makes it younger; other ports of the node decide nothing."""
    now = [1000.0]
    told = sweeps.Sweeps(
        ["gpu-01"], beat_s=10, stale_s=30, clock=lambda: now[0], now=lambda: now[0]
    )
    node = NodeName("gpu-01")
    swept = SweptPort(port=PORT, digest=digest("a"), age_s=5)
    told.hear(node, SweepReport(ports=(swept,)))
    told.deliver(node, PORT, digest("a"), b"packed")
    now[0] = 2000.0
    told.hear(node, SweepReport(trouble="no InfiniBand port of this host is active"))
    (dump,) = told.dumps()
    assert (dump.found_at, dump.packed) == (995, b"packed")
    (again,) = told.dumps()
    assert again.packed is None
    each = [SweptPort(port=f"mlx5_{number}-1", digest=digest("b")) for number in range(100)]
    answers = [told.hear(node, SweepReport(ports=(one,), trouble="not whole")) for one in each]
    assert all(len(answer.want) <= MAX_SWEPT_PORTS for answer in answers)


async def test_a_report_of_sweeps_that_cannot_be_read_is_refused_and_so_is_a_flood(
    flags: tuple[str, ...],
) -> None:
    ports = ",".join(f'{{"port": "mlx5_{number}-1"}}' for number in range(17))
    wrong = (
        b"{",
        b'{"ports": [{"port": "../etc"}]}',
        b'{"ports": [{"port": "mlx5_0-1", "digest": "abc"}]}',
        b'{"ports": [{"port": "mlx5_0-1", "age_s": -1}]}',
        f'{{"ports": [{ports}]}}'.encode(),
        b" " * 70_000,
    )
    async with running(*flags) as master:
        node = Sweeping(master)
        assert [(await node.post(SWEEPS_PATH, body)).status for body in wrong] == [400] * 5 + [413]
        assert (await node.post(f"{SWEEPS_PATH}/../{PORT}", b"")).status == 404
        statuses = {(await node.tell()).status for _ in range(60)}
        assert statuses == {200, 429}
