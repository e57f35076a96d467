"""Whatever a manager answers, byte for byte: a topology or a failure of the source, not its end."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import prometheus_client as prom
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.settings.cluster_manager import ClusterManagerSettings
from master.sources.cluster_manager.source import ClusterManager
from tests.clustermanager.conftest import Bench, Ear
from tests.support.answers import answers
from tests.support.peers import Answer, http, peer
from tests.support.virtual_time import in_virtual_time
from topo.discovery.manager.contract import read_topology
from topo.kit.backoff import RETRY_AFTER_CEILING_S
from topo.model.errors import Refusal
from topo.model.observation import ManagerReported, SourceFailed

LOGIN = http(orjson.dumps({"token": "good", "expires_in_s": 3600}))
DOCUMENT = {
    "groups": [{"id": "d-1", "name": "dragonfly-1", "kind": "dragonfly"}],
    "machines": [
        {"id": f"m-{number}", "group_id": "d-1", "names": {"hostname": f"node-{number}"}}
        for number in (1, 2)
    ],
}
TOPOLOGY = http(orjson.dumps(DOCUMENT))


def asking(port: int, folder: Path) -> ClusterManagerSettings:
    """A source that asks at that port over plain http; its credentials lie in the folder."""
    (folder / "username").write_text("u")
    (folder / "password").write_text("p")
    return ClusterManagerSettings(
        address=f"http://127.0.0.1:{port}",
        credentials_dir=folder,
        insecure=True,
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
    """A redirect."""
    return lambda _: http(b"", b"Location: " + location, status=b"307 Temporary Redirect")


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
@pytest.mark.virtual_time
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
@pytest.mark.virtual_time
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


LOGIN_DOCUMENT = {"token": "good", "expires_in_s": 3600}
EVENTS_DOCUMENT = {
    "cursor": "c-1",
    "events": [{"cursor": "c-1", "after": "c-0", "type": "machine-removed", "machine_id": "m-1"}],
}
CALLS: dict[bytes, Any] = {
    b"POST /v1/login": LOGIN_DOCUMENT,
    b"GET /v1/topology": {**DOCUMENT, "cursor": "c-0"},
    b"GET /v1/events": EVENTS_DOCUMENT,
    b"GET /v1/health": {"status": "ok", "detail": ""},
}
SEVERAL = 3
"""Of each bent answer: what a retry or a renewed login meets is bent too."""
PATIENCE_S = RETRY_AFTER_CEILING_S * (SEVERAL + 1)
"""What a manager can ask for, in all, before it is asked again."""
HEALTHY = {"cursor": "c-1", "events": []}


@pytest.mark.parametrize("key", ["k" * 500_000, "\x1b[2J\u202e", "line\nline"])
def test_a_key_that_a_manager_chose_is_told_in_few_plain_characters(key: str) -> None:
    """The sentence goes to logs, to the state, and to everybody who asks for the topology."""
    machine = {"id": "m-1", "names": {key: "node-1"}}
    refusal = read_topology({"groups": [], "machines": [machine]})
    assert isinstance(refusal, Refusal)
    assert refusal.where.startswith("machines[0].names.")
    assert refusal.where.isprintable()
    assert len(str(refusal)) < 300


class Bending:
    """A manager of which one call is bent several times, and then well for ever."""

    def __init__(self, call: bytes, answer: bytes) -> None:
        self._call = call
        self._answer = answer
        self.left = SEVERAL

    def __call__(self, head: bytes) -> bytes:
        call = next((call for call in CALLS if head.startswith(call)), None)
        if call == self._call and self.left:
            self.left -= 1
            return self._answer
        if call == b"GET /v1/events":
            return http(orjson.dumps(HEALTHY))
        return http(orjson.dumps(CALLS[call])) if call else http(status=b"404 Not Found")


bent_calls = st.sampled_from([*CALLS]).flatmap(
    lambda call: st.tuples(st.just(call), answers(CALLS[call]), st.booleans())
)


async def meets(folder: Path, call: bytes, answer: bytes, *, holds: bool) -> None:
    """A source asks such a manager: it lives, tells, and has the topology in the end."""
    ear, loop = Ear(), asyncio.get_running_loop()
    async with peer(Bending(call, answer), holds=holds) as port:
        source = ClusterManager(asking(port, folder), ear, prom.CollectorRegistry(), loop.time)
        task = asyncio.create_task(source.run())
        await asyncio.sleep(10)
        async with asyncio.timeout(PATIENCE_S):
            while not is_well(ear) and not task.done():
                await asyncio.sleep(1)
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError), ended
    for event in ear.events:
        if isinstance(event, SourceFailed):
            assert len(event.refusal) < 1000
            assert event.refusal.isprintable()


def is_well(ear: Ear) -> bool:
    """Whether discovery would hold the topology now, and think well of the source."""
    stated = [event.topology for event in ear.events if isinstance(event, ManagerReported)]
    is_whole = bool(stated) and [machine.id for machine in stated[-1].machines] == ["m-1", "m-2"]
    return is_whole and not isinstance(ear.events[-1], SourceFailed)


@given(bent_calls)
@settings(max_examples=8)
def test_any_answer_to_any_call_is_one_or_a_failure(
    tmp_path_factory: pytest.TempPathFactory, met: tuple[bytes, bytes, bool]
) -> None:
    """Also where it comes again, and where the connection then stays open."""
    call, answer, holds = met
    in_virtual_time(meets(tmp_path_factory.mktemp("source"), call, answer, holds=holds))


@pytest.mark.deep
@given(bent_calls)
@settings(max_examples=100)
def test_many_answers_to_any_call_are_ones_or_failures(
    tmp_path_factory: pytest.TempPathFactory, met: tuple[bytes, bytes, bool]
) -> None:
    """The same, for long."""
    call, answer, holds = met
    in_virtual_time(meets(tmp_path_factory.mktemp("source"), call, answer, holds=holds))
