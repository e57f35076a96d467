"""Masters that share a token outside a cluster: what the Lease names is sent no token by itself."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from tests.master.world import TOKEN, Master, facts
from tests.replicas.installation import Installation
from tests.replicas.test_peer import certificate
from tests.support.waiting import eventually
from topo.kit.tls import server_context
from topo.model.wire import ReportAnswer

pytestmark = pytest.mark.virtual_time

OWN, NAMED = "10.0.0.7", "10.0.0.8"
DOMAIN = "metax-tech.com"


@dataclass
class Listener:
    """Listens at `NAMED`, as far as these masters see; remembers the tokens that it was sent."""

    port: int = 0
    tokens: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        self.tokens.append(request.headers.get("Authorization", ""))
        answer = ReportAnswer.model_validate({"seq": 0, "want": "change", "beat_s": 10.0})
        return web.json_response(text=answer.model_dump_json())


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    async with listening() as made:
        yield made


@asynccontextmanager
async def listening(tls: ssl.SSLContext | None = None) -> AsyncIterator[Listener]:
    """On the loopback address, to which this loop takes what is sent to `NAMED`."""
    made, loop = Listener(), asyncio.get_running_loop()
    connect = loop.sock_connect

    async def routed(sock: object, address: tuple[str, int]) -> None:
        host = "127.0.0.1" if address[0] == NAMED else address[0]
        await connect(sock, (host, address[1]))  # type: ignore[arg-type]

    loop.sock_connect = routed  # type: ignore[method-assign,assignment]
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", made.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    made.port = runner.addresses[0][1]
    try:
        yield made
    finally:
        loop.sock_connect = connect  # type: ignore[method-assign]
        await runner.cleanup()


def name_leader(installed: Installation, text: str) -> None:
    """Whoever may write the Lease names the leader."""
    keys = ("address", "reports-address")
    annotations = {f"{DOMAIN}/{key}": text for key in keys}
    metadata = {"resourceVersion": "1", "annotations": annotations}
    spec = {"holderIdentity": "ghost", "leaseDurationSeconds": 3600}
    installed.lease.stored = {"metadata": metadata, "spec": spec}


@pytest.fixture
def flags(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "workers").write_text(TOKEN)
    return ("--mode=dragonfly", f"--worker-token-file={tmp_path / 'workers'}")


def follower(
    installed: Installation, flags: tuple[str, ...], own: str = OWN
) -> AbstractAsyncContextManager[Master]:
    """A master at this address, which is no pod."""
    installed.pod_ip = own
    return installed.master("b", *flags)


def told(master: Master) -> str:
    """What the follower says of its leader."""
    warnings = master.service.warnings.now()
    return next((each.text for each in warnings if each.code == "leader-silent"), "")


@pytest.mark.parametrize(
    ("own", "host"),
    [
        *((OWN, host) for host in (NAMED, "127.0.0.1", "[::1]", "169.254.0.8")),
        *((OWN, f"[::ffff:{host}]") for host in (NAMED, "127.0.0.1", "169.254.0.8")),
        *(("127.0.0.1", host) for host in (NAMED, f"[::ffff:{NAMED}]", "[::ffff:127.0.0.1]")),
    ],
)
async def test_an_address_that_no_setting_names_is_sent_no_token(
    installed: Installation, flags: tuple[str, ...], listener: Listener, own: str, host: str
) -> None:
    """A worker's report is answered by the follower, and the leader's state is not asked for."""
    name_leader(installed, f"{host}:{listener.port}")
    async with follower(installed, flags, own) as master:
        await asyncio.sleep(5)
        answer = await master.worker("n1").full(facts("n1"))
        assert answer.status == 503
        assert master.service.replica.role.reports_url == ""
        if (own, host) == (OWN, NAMED):
            assert "--replica-addresses" in told(master)
    assert listener.tokens == []


@pytest.mark.parametrize("networks", [NAMED, "10.0.0.0/24, fd00::/64"])
async def test_an_address_that_a_setting_names_is_the_leaders(
    installed: Installation, flags: tuple[str, ...], listener: Listener, networks: str
) -> None:
    name_leader(installed, f"{NAMED}:{listener.port}")
    async with follower(installed, (*flags, f"--replica-addresses={networks}")) as master:
        await eventually(lambda: bool(master.service.replica.role.reports_url))
        answer = await master.worker("n1").full(facts("n1"))
        assert answer.status == 200
    assert f"Bearer {TOKEN}" in listener.tokens


async def test_over_tls_a_leader_with_the_masters_certificate_needs_no_setting(
    installed: Installation, flags: tuple[str, ...], tmp_path: Path
) -> None:
    """One with another certificate is sent nothing: `test_peer.py`."""
    cert, key = certificate(tmp_path, "ours")
    tls = (f"--tls-cert={cert}", f"--tls-key={key}")
    async with listening(server_context(cert, key)) as listener:
        name_leader(installed, f"{NAMED}:{listener.port}")
        async with follower(installed, (*flags, *tls)) as master:
            await eventually(lambda: bool(master.service.replica.role.reports_url))
            assert master.service.replica.role.reports_url.startswith("https://")
            answer = await master.worker("n1").full(facts("n1"))
            assert answer.status == 200
        assert f"Bearer {TOKEN}" in listener.tokens
