"""The port that schedulers ask, over TLS: who may ask, what is renewed, and what is told."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession, TCPConnector

from tests.extender.model import NODES, Asking, Scheduler, asked
from tests.extender.test_followers import answers, electing
from tests.kube.credentials.test_access import client_certificate
from tests.kube.fake_server import FakeServer
from tests.kube.plain import serving
from tests.replicas.installation import leads
from tests.support.waiting import eventually
from topo.kit.tls import client_context
from topo.sim.certificates import Authority

pytestmark = pytest.mark.virtual_time

SCHEDULER = "system:kube-scheduler"
QUESTION = {"Pod": {"metadata": {"name": "a", "namespace": "b"}, "spec": {}}, "NodeNames": NODES}
MIB = 1 << 20


@dataclass(frozen=True)
class Pki:
    """The authority of the port and that of its clients, in files that a test may change."""

    home: Path

    @property
    def flags(self) -> tuple[str, ...]:
        cert, key = self.pair
        return (
            f"--extender-tls-cert={cert}",
            f"--extender-tls-key={key}",
            f"--extender-client-ca={self.client_ca}",
        )

    @property
    def pair(self) -> tuple[Path, Path]:
        return self.home / "port.pem", self.home / "port.key"

    @property
    def client_ca(self) -> Path:
        return self.home / "client-ca.pem"

    def renew_pair(self) -> None:
        made = Authority.at(self.home / "servers").leaf("port", "127.0.0.1")
        for source, target in zip(made, self.pair, strict=True):
            target.write_bytes(source.read_bytes())

    def trust(self, authority: str) -> None:
        """Let the clients of the authority of this name ask, and no others."""
        made = Authority.at(self.home / authority)
        self.client_ca.write_bytes(made.certificate_file.read_bytes())

    def client(self, authority: str = "", name: str = SCHEDULER) -> ssl.SSLContext:
        """A client that trusts the port, and shows a certificate of an authority, or none."""
        context = client_context(Authority.at(self.home / "servers").certificate_file)
        if authority:
            context.load_cert_chain(*client_certificate(Authority.at(self.home / authority), name))
        return context


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    made = Pki(tmp_path)
    made.renew_pair()
    made.trust("clients")
    return made


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    made = FakeServer()
    async with serving(made.handle) as url:
        made.url = url
        await Scheduler(made).nodes_come()
        yield made
        made.cut_watches()


async def status(asking: Asking, client: ssl.SSLContext, **headers: str) -> int:
    """The status of a question on a connection of its own; 0 where there is no connection."""
    async with ClientSession(connector=TCPConnector(ssl=client)) as session:
        return await status_on(session, asking, **headers)


async def status_on(session: ClientSession, asking: Asking, **headers: str) -> int:
    url = f"{asking.url}/scheduler/filter"
    try:
        async with session.post(url, json=QUESTION, headers=headers) as answer:
            return answer.status
    except (ClientError, OSError):
        return 0


def warned(asking: Asking) -> set[str]:
    return {each.code for each in asking.master.service.warnings.now()}


async def test_who_shows_no_certificate_of_the_authority_is_answered_nothing(
    server: FakeServer, pki: Pki, tmp_path: Path
) -> None:
    """None, one of a stranger, that of a server, another name: and the right one is answered."""
    names = f"--extender-client-names=scheduler.example.com,{SCHEDULER}"
    right = pki.client("clients")
    async with asked(server, tmp_path, *pki.flags, names, client=right) as asking:
        assert (await asking.ask("filter", QUESTION))["NodeNames"] == NODES
        assert await status(asking, pki.client()) == 401
        assert await status(asking, pki.client("strangers")) == 0
        assert await status(asking, pki.client("clients", "system:node:n1")) == 403
        assert await status(asking, pki.client(), Authorization="Bearer a-guess") == 401
        of_server = pki.client()
        of_server.load_cert_chain(*Authority.at(tmp_path / "clients").leaf("s", "127.0.0.1"))
        assert await status(asking, of_server) == 0
        assert await status(asking, right) == 200
        assert answers(asking, "denied") == 3
        async with ClientSession() as plain:
            assert await status_on(plain, _as_http(asking)) == 0
        assert "extender-open" not in warned(asking)


def _as_http(asking: Asking) -> Asking:
    return Asking(asking.master, asking.url.replace("https:", "http:"), asking.session)


async def test_of_the_body_of_a_stranger_nothing_is_read(
    server: FakeServer, pki: Pki, tmp_path: Path
) -> None:
    """The refusal comes before a byte of it was sent."""
    async with asked(server, tmp_path, *pki.flags, client=pki.client("clients")) as asking:
        port = int(asking.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=pki.client())
        writer.write(
            b"POST /scheduler/filter HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % (8 * MIB)
        )
        assert b" 401 " in await reader.readline()
        writer.transport.abort()


async def test_without_names_each_client_of_the_authority_may_ask(
    server: FakeServer, pki: Pki, tmp_path: Path
) -> None:
    anybody = pki.client("clients", "somebody")
    async with asked(server, tmp_path, *pki.flags, client=anybody) as asking:
        assert (await asking.ask("filter", QUESTION))["NodeNames"] == NODES


async def test_a_renewed_certificate_is_shown_and_a_broken_one_leaves_the_old(
    server: FakeServer, pki: Pki, tmp_path: Path
) -> None:
    async with asked(server, tmp_path, *pki.flags, client=pki.client("clients")) as asking:
        before = await serial(asking, pki)
        end = "topo_master_extender_certificate_end_timestamp_seconds"
        assert (asking.master.service.registry.get_sample_value(end) or 0) > 0
        whole = pki.pair[1].read_bytes()
        pki.pair[1].write_text("broken")
        await eventually(lambda: "extender-tls-files" in warned(asking))
        assert await serial(asking, pki) == before
        pki.pair[1].write_bytes(whole)
        await eventually(lambda: "extender-tls-files" not in warned(asking))
        assert await serial(asking, pki) == before
        assert (await asking.ask("filter", QUESTION))["NodeNames"] == NODES
        pki.renew_pair()

        async def is_renewed() -> bool:
            await asyncio.sleep(0.5)
            return await serial(asking, pki) != before

        await eventually(is_renewed)
        assert (await asking.ask("filter", QUESTION))["NodeNames"] == NODES, "it keeps connections"
        assert asking.master.service.registry.get_sample_value(end)


async def serial(asking: Asking, pki: Pki) -> str:
    """The serial number of the certificate that the port shows."""
    port = int(asking.url.rpartition(":")[2])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=pki.client())
    try:
        return str(writer.get_extra_info("peercert")["serialNumber"])
    finally:
        writer.transport.abort()


async def test_when_the_authority_changes_its_clients_may_ask_and_the_former_ones_no_more(
    server: FakeServer, pki: Pki, tmp_path: Path
) -> None:
    """Neither on a new connection nor on one that they hold open."""
    old, new = pki.client("clients"), pki.client("successors")
    async with (
        asked(server, tmp_path, *pki.flags, client=old) as asking,
        ClientSession(connector=TCPConnector(ssl=old, limit=1)) as held_open,
    ):
        assert await status_on(held_open, asking) == 200
        assert await status(asking, new) == 0
        pki.client_ca.write_text("no certificate")
        await eventually(lambda: "extender-tls-files" in warned(asking))
        assert await status(asking, old) == 200, "a broken file changes nothing"
        pki.trust("successors")

        async def is_trusted() -> bool:
            await asyncio.sleep(0.5)
            return await status(asking, new) == 200

        await eventually(is_trusted)
        assert "extender-tls-files" not in warned(asking)
        assert await status_on(held_open, asking) == 401
        assert await status_on(held_open, asking) == 0
        assert await status(asking, old) == 0


async def test_a_port_that_asks_for_no_certificate_is_a_finding_that_says_what_it_tells(
    server: FakeServer, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        (warning,) = (
            each for each in asking.master.service.warnings.now() if each.code == "extender-open"
        )
    assert "which nodes are kept for the group of a pod" in warning.text
    assert "how the quota of a namespace stands" in warning.text
    assert "--extender-client-ca" in warning.fix
    async with asked(server, tmp_path, "--bind-address=127.0.0.1") as asking:
        assert "extender-open" not in warned(asking), "it listens on this machine alone"


async def test_a_follower_forwards_over_that_tls_and_is_known_by_the_masters_token(
    pki: Pki, tmp_path: Path
) -> None:
    """Its certificate is one of a server alone, which is good for no client."""
    async with electing(tmp_path, *pki.flags, client=pki.client("clients")) as elections:
        scheduler = Scheduler(elections.server)
        await scheduler.nodes_come()
        async with elections.start("a") as leader:
            await leads(leader.master)
            async with elections.start("b") as follower:
                role = follower.master.service.replica
                await eventually(lambda: bool(role.role.extender_url))
                assert role.role.extender_url.startswith("https://")
                await scheduler.job_comes("train", 2, 8, 16)
                await scheduler.schedule(follower, "train-0")
                assert scheduler.node_of("train-0")
                assert answers(follower, "forwarded") == answers(leader, "planned") == 1
                assert answers(leader, "denied") == 0
                assert await status(follower, pki.client()) == 401
