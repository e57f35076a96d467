"""Sweeps of a fabric by a program of the host, and what the master gets of them."""

import gzip
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fabric import pairs, rails, write_adapters
from tests.support.waiting import eventually
from topo.kit.settings import read
from topo.model.machine import NetworkPort
from topo.model.wire import SWEEPS_PATH, SweepAnswer, SweepReport
from worker.app import build_agent, build_app
from worker.settings import WorkerSettings
from worker.sweeping.dump_text import DumpText

BUILT = rails([["gpu-01", "gpu-02"], ["gpu-03", "gpu-04"]], 2)
FIRST, SECOND = BUILT.adapters["gpu-01"]
OTHER = "0002c90300000001"


@dataclass
class Listener:
    """A master that knows no dump, and what it heard."""

    reports: list[SweepReport] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    port: int = 0

    async def post_sweeps(self, request: web.Request) -> web.Response:
        report = SweepReport.model_validate_json(await request.read())
        self.reports.append(report)
        want = tuple(p.port for p in report.ports if p.digest and self.held.get(p.port) != p.digest)
        answer = SweepAnswer(want=want, beat_s=0.2)
        return web.json_response(text=answer.model_dump_json())

    async def post_text(self, request: web.Request) -> web.Response:
        of = request.match_info
        self.texts[of["port"]] = gzip.decompress(await request.read()).decode()
        self.held[of["port"]] = of["digest"]
        return web.json_response(text=SweepAnswer(beat_s=0.2).model_dump_json())


@asynccontextmanager
async def sweeping(folder: Path, *flags: str) -> AsyncIterator[tuple[Listener, TestClient]]:  # type: ignore[type-arg]
    """A worker that sweeps every second, and the master that it tells."""
    master = Listener()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post(SWEEPS_PATH, master.post_sweeps)
    app.router.add_post(f"{SWEEPS_PATH}/{{port}}/{{digest}}", master.post_text)
    async with TestServer(app) as server:
        given_flags = (
            f"--server-address=127.0.0.1:{server.port}",
            f"--sysfs-root={folder / 'sys'}",
            "--sweep-interval=1",
            *flags,
        )
        settings = read(WorkerSettings, given_flags)
        assert isinstance(settings, WorkerSettings), settings
        async with TestClient(TestServer(build_app(build_agent(settings, None)))) as client:
            yield master, client


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts an `ibnetdiscover` with this body on the PATH; its words are counted in `calls`."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def put(body: str) -> None:
        new = tmp_path / "new"
        new.write_text(f'#!/bin/sh\ncd "{tmp_path}"; echo "$@" >>calls\n{body}\n')
        new.chmod(0o755)
        new.rename(tmp_path / "ibnetdiscover")

    return put


async def test_each_subnet_is_swept_once_and_a_text_travels_once(
    tmp_path: Path, program: Callable[[str], None]
) -> None:
    """Two adapters on one subnet, one on another; a master that starts again gets all again."""
    write_adapters(tmp_path, mlx5_0=FIRST, mlx5_1=SECOND, mlx5_2=OTHER)
    (tmp_path / "mlx5_0").write_text(BUILT.text())
    (tmp_path / "mlx5_2").write_text(pairs(1).text())
    program('date "+# Topology file: generated on %s"; cat "$2"')
    async with sweeping(tmp_path) as (master, client):
        await eventually(lambda: len(master.texts) == 2)
        assert (tmp_path / "calls").read_text() == "-C mlx5_0 -P 1\n-C mlx5_2 -P 1\n"
        assert master.texts["mlx5_0-1"].endswith(BUILT.text())
        master.texts.clear()
        await eventually(lambda: len((tmp_path / "calls").read_text().splitlines()) == 4)
        heard = len(master.reports)
        await eventually(lambda: len(master.reports) > heard + 1)
        assert not master.texts  # swept again, and only the title's time differs
        master.held.clear()
        await eventually(lambda: len(master.texts) == 2)
        assert (await client.get("/health")).status == 200
        metrics = await (await client.get("/metrics")).text()
        assert 'topo_worker_reports_total{kind="dump"} 4.0' in metrics
        assert 'topo_worker_probe_state{probe="ibnetdiscover",state="ok"} 1.0' in metrics


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('echo "can\'t open UMAD port" >&2; exit 255', "exit status 255: can't open UMAD port"),
        ("head -c 70000000 /dev/zero", "printed more than 67108864 bytes"),
        ("kill -SEGV $$", "signal SIGSEGV"),
    ],
)
async def test_a_program_that_fails_is_told_and_its_output_is_not_sent(
    tmp_path: Path, program: Callable[[str], None], body: str, said: str
) -> None:
    write_adapters(tmp_path, mlx5_0=FIRST)
    program(body)
    async with sweeping(tmp_path) as (master, _):
        await eventually(lambda: bool(master.reports and master.reports[-1].ports))
        (swept,) = master.reports[-1].ports
        assert said in swept.trouble
        assert swept.digest == ""
        assert not master.texts


async def test_a_subnet_whose_first_port_fails_is_swept_from_the_next_one(
    tmp_path: Path, program: Callable[[str], None]
) -> None:
    """What a program complains about that ends well is told beside its dump."""
    write_adapters(tmp_path, mlx5_0=FIRST, mlx5_1=SECOND)
    (tmp_path / "mlx5_1").write_text(BUILT.text())
    program('cat "$2" && echo "mad timed out" >&2')
    async with sweeping(tmp_path) as (master, _):
        await eventually(lambda: bool(master.texts))
        (swept,) = master.reports[-1].ports
        assert (swept.port, swept.trouble) == ("mlx5_1-1", "mad timed out")


async def test_a_host_that_cannot_sweep_says_why(tmp_path: Path) -> None:
    """No adapter; an adapter of Ethernet alone."""
    async with sweeping(tmp_path) as (master, _):
        await eventually(lambda: bool(master.reports))
        assert "no InfiniBand or RoCE devices" in master.reports[-1].trouble
    write_adapters(tmp_path, mlx5_0=FIRST)
    layer = tmp_path / "sys/class/infiniband/mlx5_0/ports/1/link_layer"
    layer.write_text("Ethernet\n")
    async with sweeping(tmp_path) as (master, _):
        await eventually(lambda: bool(master.reports))
        assert master.reports[-1].trouble == "no InfiniBand port of this host is active"


@given(st.lists(st.integers(1, 400), max_size=40), st.text("#\n x", max_size=20))
def test_pieces_decide_nothing(sizes: list[int], title: str) -> None:
    """However a dump is cut into pieces: the same text, digest and ports; comments change none."""
    ports = [
        NetworkPort(name, 1, up=True, node_guid=guid)
        for name, guid in (("mlx5_0", f"0x{FIRST}"), ("mlx5_1", SECOND), ("mlx5_2", OTHER))
    ]
    content = BUILT.text().encode()
    whole, cut = DumpText(ports), DumpText(ports)
    whole.take(content)
    titled = b"# " + title.replace("\n", " ").encode() + b"\n" + content
    at = 0
    for size in [*sizes, len(titled)]:
        cut.take(titled[at : at + size])
        at += size
    one, other = whole.end(), cut.end()
    assert gzip.decompress(other.packed) == titled
    assert one.digest == other.digest
    assert {port.hca for port in one.reached} == {"mlx5_0", "mlx5_1"}
    assert one.reached == other.reached


def test_an_interval_that_asks_too_much_and_a_recording_are_refused() -> None:
    for flag, part in (("--sweep-interval=0.5", "too short"), ("--record=x", "does not read")):
        refused = read(WorkerSettings, ("--sweep-interval=60", flag))
        assert part in str(refused)
