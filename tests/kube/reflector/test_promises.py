"""What a reflector promises, on the fake API server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kube.fake_server import FakeServer, fake_server
from tests.kube.plain import kubeconfig
from tests.kube.reflector.promises import PROMISES, ApiServer

pytestmark = pytest.mark.virtual_time


@dataclass
class FakeApiServer:
    """The fake one."""

    server: FakeServer
    kubeconfig: Path
    namespace: str = "n"

    async def put(self, name: str, value: str) -> None:
        await self.server.put("configmaps", name, self.namespace, data={"value": value})

    async def delete(self, name: str) -> None:
        await self.server.delete("configmaps", name, self.namespace)

    async def cut(self) -> None:
        self.server.cut_watches()

    async def forget(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self.server.lose_history()
        await meanwhile()
        self.server.compact()
        self.server.cut_watches()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[FakeApiServer]:
    async with fake_server() as fake:
        yield FakeApiServer(fake, kubeconfig(tmp_path, fake.url))


@pytest.mark.parametrize("promise", PROMISES)
async def test_on_a_fake_server(
    promise: Callable[[ApiServer], Awaitable[None]], server: FakeApiServer
) -> None:
    await promise(server)
