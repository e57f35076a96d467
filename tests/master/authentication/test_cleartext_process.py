"""Tokens that cross a network, by real processes: who says so, and that the advice ends it."""

import asyncio
import os
import sys
import sysconfig
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from master.authentication.cleartext import API_TOKEN, WORKER_TOKEN
from tests.master.placing import WRITER
from tests.master.process import MASTER, MasterProcess, master_process
from tests.master.world import TOKEN
from tests.support.network import BEYOND, own_network
from tests.support.waiting import CEILING_S
from topo.sim.bundles import write_bundle
from topo.sim.certificates import Authority
from topo.sim.worlds.presets import demo_world

pytestmark = pytest.mark.slow
TOPO = str(Path(sysconfig.get_path("scripts")) / "topo")
HOST = demo_world().nodes[2]
TOLD = "a secret can be read on the network"
WARNED = b"the token crosses the network in clear text"
CALL = f"""
import sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1] + "/v1/holds/none", method="DELETE")
request.add_header("Authorization", "Bearer {WRITER}")
try:
    urllib.request.urlopen(request)
except urllib.error.HTTPError as error:
    print(error.code)
"""
"""Gives back a hold that there is not: 404 says that the token was accepted."""


@dataclass
class Network:
    """A master and its worker in a network of their own, which see each other at `BEYOND`."""

    inside: Sequence[str]
    master: MasterProcess
    worker: asyncio.subprocess.Process
    environment: dict[str, str]

    async def run(self, *command: str) -> str:
        """What a command prints there, in one line."""
        process = await asyncio.create_subprocess_exec(
            *self.inside,
            *command,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **self.environment},
        )
        out, _ = await asyncio.wait_for(process.communicate(), CEILING_S)
        return " ".join(out.decode().split())

    async def call(self) -> str:
        """The status of a call with the API token, from beyond the loopback."""
        url = f"{self.master.scheme}://{BEYOND}:{self.master.ports['api']}"
        return await self.run(sys.executable, "-c", CALL, url)

    async def doctor(self) -> str:
        """What the doctor says, asked on the master's machine."""
        return await self.run(TOPO, "doctor", f"--master={self.master.url}")

    async def told(self) -> list[str]:
        """The secrets of which the master has told, in all of its log."""
        await self.master.end()
        return [line["code"] for line in self.master.log if line["event"] == TOLD]


@asynccontextmanager
async def running(tmp_path: Path, tls: Authority | None) -> AsyncIterator[Network]:
    """The network once the worker's report was taken."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "writers").write_text(WRITER)
    write_bundle(tmp_path / "recording", HOST)
    flags, report_flags, environment = [], [], {}
    if tls is not None:
        cert, key = tls.leaf("master", "127.0.0.1", BEYOND)
        flags = [f"--tls-cert={cert}", f"--tls-key={key}"]
        report_flags = ["--server-tls", f"--tls-ca={tls.certificate_file}"]
        authority = str(tls.certificate_file)
        environment = {"SSL_CERT_FILE": authority, "TOPO_CA_FILE": authority}
    with own_network() as inside:
        async with master_process(
            *("--bind-address=0.0.0.0", "--mode=dragonfly", "--beat-interval=0.2", *flags),
            f"--worker-token-file={tmp_path / 'token'}",
            f"--api-token-file={tmp_path / 'writers'}",
            command=(*inside, *MASTER),
        ) as master:
            master.scheme = "http" if tls is None else "https"
            worker = await asyncio.create_subprocess_exec(
                *(*inside, sys.executable, "-m", "worker", "--metrics-address=127.0.0.1:0"),
                f"--server-address={BEYOND}:{master.ports['reports']}",
                f"--token-file={tmp_path / 'token'}",
                f"--replay={tmp_path / 'recording'}",
                *report_flags,
                stdout=asyncio.subprocess.PIPE,
            )
            try:
                await master.logged("node-added")
                yield Network(inside, master, worker, environment)
            finally:
                if worker.returncode is None:
                    worker.kill()
                await worker.communicate()


async def test_tokens_in_cleartext_are_said_once_by_all_who_can_know(tmp_path: Path) -> None:
    """The worker that sends one, the master that accepts it, and the doctor that is asked."""
    async with running(tmp_path, None) as network:
        assert [await network.call() for _ in range(2)] == ["404", "404"]
        doctor = await network.doctor()
        network.worker.terminate()
        said, _ = await network.worker.communicate()
        assert await network.told() == [WORKER_TOKEN.code, API_TOKEN.code]
    assert f"a worker's token came from {BEYOND} over plain HTTP" in doctor
    assert f"an API token came from {BEYOND} over plain HTTP" in doctor
    assert "--tls-cert and --tls-key" in doctor
    assert said.count(WARNED) == 1


async def test_what_the_doctor_advises_ends_the_cleartext(tmp_path: Path) -> None:
    """With a certificate nobody has anything to say."""
    async with running(tmp_path, Authority.at(tmp_path / "ca")) as network:
        assert await network.call() == "404"
        doctor = await network.doctor()
        network.worker.terminate()
        said, _ = await network.worker.communicate()
        assert await network.told() == []
    assert "clear text" not in doctor
    assert "plain HTTP" not in doctor
    assert WARNED not in said
    assert any(orjson.loads(line) for line in said.splitlines())
