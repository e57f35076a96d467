"""Whatever a manager answers, byte for byte: a topology or a failure of the source, not its end."""

from pathlib import Path

import orjson
import pytest

from master.sources.cluster_manager.settings import ClusterManagerSettings
from tests.clustermanager.conftest import Bench
from tests.support.peers import Answer, http, peer
from topo.model.observation import ManagerReported, SourceFailed

pytestmark = pytest.mark.virtual_time
LOGIN = http(orjson.dumps({"token": "good", "expires_in_s": 3600}))
DOCUMENT = {
    "groups": [{"id": "d-1", "name": "dragonfly-1", "kind": "dragonfly"}],
    "machines": [{"id": f"m-{number}", "group_id": "d-1"} for number in (1, 2)],
}
TOPOLOGY = http(orjson.dumps(DOCUMENT))


def asking(port: int, folder: Path) -> ClusterManagerSettings:
    """A source that asks at that port over plain http; its credentials lie in the folder."""
    (folder / "username").write_text("u")
    (folder / "password").write_text("p")
    return ClusterManagerSettings(
        address=f"http://127.0.0.1:{port}",
        credentials_dir=folder,
        allow_http=True,
        poll_topology_s=1.0,
        max_answer_bytes=1 << 20,
        backoff_ceiling_s=1.0,
    )


def then_well(*answers: Answer) -> Answer:
    """A manager that takes every login, answers its topology so, once each, and then well."""
    left = list(answers)

    def answer(head: bytes) -> bytes:
        if head.startswith(b"POST"):
            return LOGIN
        return left.pop(0)(head) if left else TOPOLOGY

    return answer


def moved_to(location: bytes) -> Answer:
    """A redirect; `{host}` becomes the host and port that were asked."""

    def answer(head: bytes) -> bytes:
        host = head.partition(b"Host: ")[2].partition(b"\r\n")[0]
        where = b"Location: " + location.replace(b"{host}", host)
        return http(b"", where, status=b"307 Temporary Redirect")

    return answer


@pytest.mark.parametrize(
    ("location", "words"),
    [
        (b"http://user:hush@{host}/v1/topology", "a redirect with credentials in it"),
        (b"//user@{host}/v1/topology", "a redirect with credentials in it"),
        (b"http://{host}@elsewhere.invalid/", "a redirect to http://elsewhere.invalid"),
        (b"https://{host}/v1/topology", "a redirect to https://127.0.0.1"),
        (b"http://" + b"a" * 7000 + b"/", "a redirect to http://aaaa"),
        (b"http://{host}99999/", "a redirect to nowhere"),
        (b"http://[::1", "a redirect to nowhere"),
        (b"file:///etc/passwd", "a redirect to nowhere"),
        (b"", "more than 3 redirects"),
        (b"/v1/topology", "more than 3 redirects"),
    ],
)
async def test_a_redirect_to_anywhere_is_a_failure_of_the_source(
    location: bytes, words: str, bench: Bench, tmp_path: Path
) -> None:
    """Neither credentials nor their place in a URL are taken from it, and the next poll is well."""
    async with peer(then_well(*[moved_to(location)] * 4)) as port:
        running = bench.run(asking(port, tmp_path))
        failed = await running.ear.hear(SourceFailed)
        assert words in failed.refusal
        assert "hush" not in failed.refusal
        assert len(failed.refusal) < 300
        await running.ear.hear(ManagerReported)


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH_9.6\r\n", b"x" * 100_000, b"HTTP/1.1 200 OK\r\nA\r\n\r\n", b"\0" * 9],
)
async def test_what_is_no_http_is_told_as_that_without_its_bytes(
    answer: bytes, bench: Bench, tmp_path: Path
) -> None:
    """Another service at that port: the address is wrong, not the network."""
    async with peer(then_well(lambda _: answer)) as port:
        running = bench.run(asking(port, tmp_path))
        failed = await running.ear.hear(SourceFailed)
        assert "what answers does not keep to HTTP" in failed.refusal
        assert len(failed.refusal) < 300
        await running.ear.hear(ManagerReported)
