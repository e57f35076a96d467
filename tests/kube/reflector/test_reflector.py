"""A reflector keeps what is true, whatever the API server does meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiohttp.web import StreamResponse

from master.kube.objects import NodeObject
from master.kube.reading import PAGE
from master.kube.reflector import Scope
from tests.kube import fake_server as fake
from tests.kube.fake_server import FakeServer, fake_server
from tests.kube.plain import kubeconfig
from tests.kube.reflector.reflecting import Ear, Reflecting, reflecting

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with fake_server() as running:
        for name in ("node-1", "node-2"):
            await running.put("nodes", name)
        yield running


@pytest.fixture
async def running(server: FakeServer, tmp_path: Path) -> AsyncIterator[Reflecting]:
    """A reflector that has listed the two nodes and watches."""
    async with reflecting(kubeconfig(tmp_path, server.url)) as found:
        await found.ear.until(lambda: found.reflector.synced)
        await until_watched(server, 1)
        yield found


async def fill(server: FakeServer, number: int) -> None:
    """Puts so many nodes more."""
    for each in range(number):
        await server.put("nodes", f"more-{each}")


async def until_watched(server: FakeServer, times: int) -> None:
    while server.count("watch") < times:
        await asyncio.sleep(0.01)


FAULTS = {
    "429 storm": fake.refused(429),
    "503": fake.refused(503),
    "500 html": fake.says(b"<html>oops</html>", status=500),
    "wrong content": fake.says(b"<html>a portal</html>"),
    "another kind": fake.says(b'{"kind":"Status","status":"Success"}\n'),
    "truncated": fake.truncated,
    "stalled": fake.stalled,
    "dripping": fake.dripping,
    "ended at once": fake.ended_at_once,
    "cut each line": fake.cut_each_line,
    "endless line": fake.endless_line,
    "410": fake.refused(410),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_after_any_fault_the_store_is_true_again(
    server: FakeServer, tmp_path: Path, name: str, verb: str
) -> None:
    """Twice in a row; what came and went meanwhile is told."""
    server.spoil(verb, FAULTS[name], FAULTS[name])
    async with reflecting(kubeconfig(tmp_path, server.url)) as found:
        if verb == "watch":
            await found.ear.until(lambda: found.reflector.synced)
            await server.delete("nodes", "node-1")
            await server.put("nodes", "node-3")
            server.compact()
            await found.ear.until(lambda: found.names == {"node-2", "node-3"})
        await server.put("nodes", "node-4")
        await found.ear.until(lambda: "node-4" in found.names)
        assert found.names == {key[2] for key in server.objects}
        assert found.reflector.trouble is None


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_a_fault_that_stays_costs_few_requests(
    server: FakeServer, tmp_path: Path, name: str, verb: str
) -> None:
    """In 200 s the first ten waits, then about one in 15 s, 30 s being the longest."""
    server.always[verb] = FAULTS[name]
    if name == "cut each line":
        server.compact()
    async with reflecting(kubeconfig(tmp_path, server.url)) as found:
        await asyncio.sleep(200)
        assert len(server.asked) < 70, "two requests each time: list, watch"
        assert found.reflector.synced == (verb == "watch")


async def test_what_came_changed_and_went_is_told_in_order(
    server: FakeServer, running: Reflecting
) -> None:
    await server.put("nodes", "node-3")
    await server.put("nodes", "node-3", spec={"unschedulable": True})
    await server.delete("nodes", "node-1")
    await running.ear.until(lambda: len(running.ear.told) == 4)
    assert running.ear.told == [
        ("listed", {"node-1", "node-2"}),
        ("changed", "node-3"),
        ("changed", "node-3"),
        ("removed", "node-1"),
    ]
    assert running.names == {"node-2", "node-3"}
    assert running.measured("objects", resource="nodes") == 2


async def test_a_heartbeat_is_no_news(server: FakeServer, running: Reflecting) -> None:
    beat = {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "t1"}]}
    await server.put("nodes", "node-1", status=beat)
    beat["conditions"][0]["lastHeartbeatTime"] = "t2"
    await server.put("nodes", "node-1", status=beat)
    await server.put("nodes", "node-2", spec={"unschedulable": True})
    await running.ear.until(lambda: len(running.ear.told) == 3)
    assert [what for what in running.ear.told if what[0] == "changed"] == [
        ("changed", "node-1"),
        ("changed", "node-2"),
    ]


async def test_a_list_that_differs_in_nothing_is_no_news(
    server: FakeServer, running: Reflecting
) -> None:
    server.compact()
    await server.put("nodes", "node-1")
    server.compact()
    server.cut_watches()
    await until_watched(server, 3)
    await asyncio.sleep(1)
    assert server.count("list") == 2
    assert running.ear.told == [("listed", {"node-1", "node-2"})]


async def test_who_subscribes_late_is_told_of_all_at_once(running: Reflecting) -> None:
    late = Ear()
    running.reflector.subscribe(late)
    assert late.told == [("listed", {"node-1", "node-2"})]


async def test_a_long_list_comes_in_pages(server: FakeServer, tmp_path: Path) -> None:
    await fill(server, 2 * PAGE)
    async with reflecting(kubeconfig(tmp_path, server.url)) as found:
        await found.ear.until(lambda: found.reflector.synced)
        assert len(found.names) == 2 * PAGE + 2
    pages = [asked.query for asked in server.asked if asked.verb == "list"]
    assert [page.get("limit") for page in pages] == [str(PAGE)] * 3
    assert all("resourceVersion" not in page for page in pages), "never beside a continue token"


async def test_a_list_goes_on_after_a_page_that_failed(server: FakeServer, tmp_path: Path) -> None:
    await fill(server, PAGE)
    server.spoil("list", in_order, fake.refused(429, 1))
    async with reflecting(kubeconfig(tmp_path, server.url)) as found:
        await found.ear.until(lambda: found.reflector.synced)
        assert len(found.names) == PAGE + 2
    assert server.count("list") == 3, "the first page is not asked for again"


async def in_order(reply: fake.Reply, parts: Iterator[bytes]) -> StreamResponse:
    await reply.begin()
    await reply.write(next(parts))
    return reply.response


async def test_a_list_whose_token_is_too_old_begins_anew(
    server: FakeServer, tmp_path: Path
) -> None:
    await fill(server, PAGE)

    async def forgetting(reply: fake.Reply, parts: Iterator[bytes]) -> StreamResponse:
        server.compact()
        return await in_order(reply, parts)

    server.spoil("list", forgetting)
    async with reflecting(kubeconfig(tmp_path, server.url)) as found:
        await found.ear.until(lambda: found.reflector.synced)
        assert len(found.names) == PAGE + 2
        assert found.measured("reconnects_total", resource="nodes", reason="gone") == 1
    assert server.count("list") == 4


@pytest.mark.parametrize("in_stream", [True, False])
async def test_what_vanished_while_the_version_was_gone_is_told(
    server: FakeServer, running: Reflecting, *, in_stream: bool
) -> None:
    """410 comes as an event of the watch, or as the status of its answer."""
    if not in_stream:
        server.spoil("watch", fake.refused(410))
    server.lose_history()
    await server.delete("nodes", "node-1")
    server.compact()
    server.cut_watches()
    await running.ear.until(lambda: running.names == {"node-2"})
    assert running.ear.told[-1] in [("listed", {"node-2"}), ("removed", "node-1")]


async def test_a_watch_goes_on_from_the_last_bookmark(
    server: FakeServer, running: Reflecting
) -> None:
    await server.bookmark()
    await asyncio.sleep(1)
    server.compact()
    server.cut_watches()
    await until_watched(server, 2)
    await server.put("nodes", "node-3")
    await running.ear.until(lambda: "node-3" in running.names)
    assert server.count("list") == 1, "the version of the bookmark is still known"


async def test_a_silent_watch_is_left_after_its_guard(
    server: FakeServer, running: Reflecting
) -> None:
    """No bookmark for 70 s: the connection is dead, whatever TCP believes."""
    await asyncio.sleep(69)
    assert server.count("watch") == 1
    await asyncio.sleep(2)
    assert server.count("watch") == 2
    assert running.measured("reconnects_total", resource="nodes", reason="timeout") == 1


async def test_the_server_decides_how_long_it_is_left_alone(
    server: FakeServer, tmp_path: Path
) -> None:
    server.spoil("list", fake.refused(429, 42))
    async with reflecting(kubeconfig(tmp_path, server.url)) as found:
        await found.ear.until(lambda: found.reflector.synced)
    assert server.asked[1].at_s - server.asked[0].at_s >= 42


async def test_an_object_that_cannot_be_read_costs_that_one_alone(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.spoil("list", fake.with_odd_object("odd", spec={"taints": 7}))
    async with reflecting(kubeconfig(tmp_path, server.url)) as found:
        await found.ear.until(lambda: found.reflector.synced)
        assert found.names == {"node-1", "node-2"}
        assert found.measured("unreadable_objects", resource="nodes") == 1
        await server.put("nodes", "odd", spec={"taints": 7})
        await server.put("nodes", "odd")
        await found.ear.until(lambda: "odd" in found.names)
        assert found.measured("unreadable_objects", resource="nodes") == 0
    said = capsys.readouterr().out
    assert said.count("cannot be read") == 1, "told once"
    assert "odd" in said
    assert "spec.taints" in said


async def test_what_was_known_of_an_object_stays_when_it_cannot_be_read_any_more(
    server: FakeServer, running: Reflecting
) -> None:
    await server.put("nodes", "node-1", spec={"unschedulable": "perhaps"})
    await server.put("nodes", "node-3")
    await running.ear.until(lambda: "node-3" in running.names)
    assert "node-1" in running.names
    assert running.measured("unreadable_objects", resource="nodes") == 1
    server.compact()
    server.cut_watches()
    await server.put("nodes", "node-4")
    await running.ear.until(lambda: "node-4" in running.names)
    assert "node-1" in running.names
    await server.delete("nodes", "node-1")
    await running.ear.until(lambda: "node-1" not in running.names)
    assert running.measured("unreadable_objects", resource="nodes") == 0


async def test_what_is_not_worth_keeping_is_not_known(server: FakeServer, tmp_path: Path) -> None:
    """An object that begins to be kept came; one that ends to be kept is gone."""
    scope = Scope[NodeObject](keep=lambda node: node.spec.unschedulable)
    async with reflecting(kubeconfig(tmp_path, server.url), scope=scope) as found:
        await found.ear.until(lambda: found.reflector.synced)
        assert found.names == set()
        await server.put("nodes", "node-1", spec={"unschedulable": True})
        await server.put("nodes", "node-2")
        await server.put("nodes", "node-1")
        await found.ear.until(lambda: len(found.ear.told) == 3)
    assert found.ear.told == [("listed", set()), ("changed", "node-1"), ("removed", "node-1")]


async def test_an_outage_is_told_once_and_its_end_too(
    server: FakeServer, running: Reflecting, capsys: pytest.CaptureFixture[str]
) -> None:
    server.always["watch"] = fake.refused(503)
    server.cut_watches()
    await asyncio.sleep(60)
    assert running.reflector.trouble is not None
    assert running.names == {"node-1", "node-2"}, "what is known stays"
    server.always.clear()
    await server.put("nodes", "node-3")
    await running.ear.until(lambda: "node-3" in running.names)
    said = capsys.readouterr().out
    assert 1 <= said.count("does not answer as asked") <= 3, "the cut, and the refusals"
    assert said.count("answers again") == 1
    assert running.measured("requests_total", method="GET", code="503") >= 3


async def test_the_versions_of_a_restored_backup_are_listed_anew(
    server: FakeServer, running: Reflecting
) -> None:
    """A version in the server's future is refused as a timeout, for ever."""
    server.spoil("watch", *[fake.refused(504)] * 3)
    await server.delete("nodes", "node-2")
    server.cut_watches()
    await running.ear.until(lambda: running.names == {"node-1"})
    await until_watched(server, 5)
    assert server.count("list") == 2
