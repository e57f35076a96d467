"""The event stream: what changes, from where one left off."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import ClientResponse, ClientTimeout

from master.api.events import step_events
from master.api.events.stream import HEARTBEAT_S, follow
from master.booking.feed import BookingFeed
from master.composition import api_limits
from master.tree import engine
from master.tree.history import History, Step
from tests.master.documents import read_json
from tests.master.placing import config, placing
from tests.master.world import Master, facts, running
from tests.support.waiting import CEILING_S
from topo.model.cluster import ClusterNode
from topo.model.forest import Change
from topo.model.ids import Generation, NodeName
from topo.model.rest.changes import CapacityEventDocument, HoldEventDocument, StepDocument
from topo.shared_cards.cards import Amount, Card, CardShare
from topo.shared_cards.families import METAX

pytestmark = pytest.mark.virtual_time


@dataclass
class _Stream:
    response: ClientResponse
    last_id: str = ""

    async def event(self) -> tuple[str, int, Any]:
        """The next event: name, id, data; comments and the greeting are passed over."""
        while True:
            name, number, data = await self.any_event()
            if not _is_greeting(name, data):
                return name, number, data

    async def greeting(self) -> Any:
        """The data of the event that tells of which capacity the stream goes on."""
        while True:
            name, _, data = await self.any_event()
            if _is_greeting(name, data):
                return data

    async def any_event(self) -> tuple[str, int, Any]:
        """The next event: name, id, data; comments are passed over."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(CEILING_S):
            while line := (await self.response.content.readline()).decode():
                name, _, value = line.rstrip("\n").partition(": ")
                if line == "\n" and "data" in fields:
                    self.last_id = fields.get("id", self.last_id)
                    number = int(self.last_id.partition(".")[0] or 0)
                    return fields["event"], number, orjson.loads(fields["data"])
                fields[name] = value
        raise AssertionError("the stream ended")

    async def comment(self) -> str:
        """The next comment."""
        async with asyncio.timeout(CEILING_S):
            while line := (await self.response.content.readline()).decode():
                if line.startswith(":"):
                    return line
        raise AssertionError("the stream ended")


def _is_greeting(name: str, data: Any) -> bool:
    return name == "capacity" and data["since"] == data["capacity_version"]


@asynccontextmanager
async def _stream(master: Master, query: str = "", **headers: str) -> AsyncIterator[_Stream]:
    url = f"{master.url}/v1/topology/events{query}"
    async with master.session.get(url, headers=headers, timeout=ClientTimeout()) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        yield _Stream(response)


async def test_a_change_is_told_as_it_happens(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master, _stream(master) as stream:
        await stream.comment()
        await master.worker("n1").full(facts("n1"))
        name, number, data = await stream.event()
        assert (name, number) == ("change", data["generation"])
        step = read_json(StepDocument, orjson.dumps(data))
        assert [(c["what"], c["subject"]) for c in step["changes"]] == [("node-added", "n1")]


async def test_a_stream_resumes_after_the_generation_last_seen(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        numbers = []
        for name in ("n1", "n2", "n3"):
            await master.worker(name).full(facts(name))
            numbers.append(await master.generation())
        async with _stream(master, f"?since={numbers[0]}") as stream:
            assert [(await stream.event())[1] for _ in range(2)] == numbers[1:]
        async with _stream(master, "?since=0", **{"Last-Event-ID": str(numbers[1])}) as stream:
            assert (await stream.event())[1] == numbers[2], "the header is newer than the URL"


async def test_the_id_of_another_run_of_the_master_is_no_place_in_this_history(
    token_flag: str,
) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        now = 0
        for name in ("n1", "n2"):
            await master.worker(name).full(facts(name))
            now = await master.generation()
        async with _stream(master, "?since=0") as stream:
            await stream.event()
            own = stream.last_id
        async with _stream(master, **{"Last-Event-ID": own}) as stream:
            assert (await stream.event())[:2] == ("change", now)
        other = f"{own.partition('.')[0]}.00000000"
        async with _stream(master, **{"Last-Event-ID": other}) as stream:
            assert await stream.event() == ("reset", now, {"generation": now})
        async with _stream(master, f"?since={own}") as stream:
            assert (await stream.event())[:2] == ("change", now), "the query takes an id, too"
        async with _stream(master, f"?since={other}") as stream:
            assert await stream.event() == ("reset", now, {"generation": now})


@pytest.mark.parametrize(
    "given", ["9" * 18, "9" * 20, "9" * 5000, "-1", "1e3", "½", "7.5e0c21a", "garbage"]
)
async def test_an_id_that_no_master_gave_is_a_reset(token_flag: str, given: str) -> None:
    """To start at now would be to miss in silence what came since the last event."""
    async with running("--mode=dragonfly", token_flag) as master:
        await master.worker("n1").full(facts("n1"))
        now = await master.generation()
        async with _stream(master, "?since=0", **{"Last-Event-ID": given}) as stream:
            assert await stream.event() == ("reset", now, {"generation": now})


async def test_an_empty_id_is_none(token_flag: str) -> None:
    """A browser that has seen no id sends an empty one."""
    async with running("--mode=dragonfly", token_flag) as master:
        await master.worker("n1").full(facts("n1"))
        now = await master.generation()
        async with _stream(master, "?since=0", **{"Last-Event-ID": " "}) as stream:
            assert (await stream.event())[1] <= now


@pytest.mark.parametrize("since", [1, 999_999])
async def test_a_generation_out_of_the_history_is_a_reset(
    token_flag: str, since: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "HISTORY_LIMIT", 2)
    async with running("--mode=dragonfly", token_flag) as master:
        now = 0
        for name in ("n1", "n2", "n3"):
            await master.worker(name).full(facts(name))
            now = await master.generation()
        async with _stream(master, f"?since={since}") as stream:
            assert await stream.event() == ("reset", now, {"generation": now})
            await master.worker("n4").full(facts("n4"))
            assert (await stream.event())[1] == now + 1, "and then it goes on"


async def test_an_old_generation_is_told_in_slices_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between two writes the loop has a turn; a big step is put into words in a thread."""
    monkeypatch.setattr(step_events, "SLICE_CHANGES", 3)
    rendered_in: dict[int, set[str]] = {}
    render = step_events.change_document

    def noted(change: Change) -> Any:
        names = rendered_in.setdefault(change.generation, set())
        names.add(threading.current_thread().name)
        return render(change)

    monkeypatch.setattr(step_events, "change_document", noted)
    turns, all_is_told = [0], asyncio.Event()

    async def turning() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    class Socket:
        """A client whose buffer always has room: writing to it never waits."""

        def __init__(self) -> None:
            self.written: list[tuple[int, bytes]] = []

        async def write(self, text: bytes) -> None:
            self.written.append((turns[0], text))
            if b"id: 6" in text:
                all_is_told.set()

    history = History(1000, Generation(0))
    for number, size in enumerate((1, 1, 1, 1, 9, 1), 1):
        step = tuple(Change(Generation(number), "node-added", f"n{i}") for i in range(size))
        history.add(Step(Generation(number), step))
    socket = Socket()
    async with asyncio.TaskGroup() as tasks:
        turner = tasks.create_task(turning())
        await asyncio.sleep(0)
        follower = tasks.create_task(follow(socket, history, 0, step_events.StepEventCache()))
        await all_is_told.wait()
        history.close()
        await follower
        turner.cancel()
    slices = [(turn, text) for turn, text in socket.written if b"event: change" in text]
    told = [line for _, text in slices for line in text.split(b"\n") if line.startswith(b"id: ")]
    assert [int(line[4:].partition(b".")[0]) for line in told] == [1, 2, 3, 4, 5, 6]
    assert len(slices) >= 4
    assert len({turn for turn, _ in slices}) == len(slices), "others had their turn in between"
    assert "MainThread" not in rendered_in[5]
    assert rendered_in[6] == {"MainThread"}


async def test_listeners_are_told_one_text_that_was_made_once() -> None:
    """Those that come meanwhile, those that take nothing of it, and those that wait for it."""
    history, texts = History(10_000, Generation(0)), step_events.StepEventCache()

    def add(number: int) -> None:
        names = (f"n{i}" for i in range(step_events.SLICE_CHANGES * 2))
        step = tuple(Change(Generation(number), "node-added", name) for name in names)
        history.add(Step(Generation(number), step))

    class Stuck:
        """A client that takes no change before the end."""

        def __init__(self) -> None:
            self.told: list[bytes] = []

        async def write(self, text: bytes) -> None:
            if b"event: change" in text:
                self.told.append(text)
                if len(self.told) == 2:
                    await ended.wait()

    ended = asyncio.Event()
    clients = [Stuck() for _ in range(6)]
    add(1)
    async with asyncio.TaskGroup() as tasks:

        async def told(some: list[Stuck], generation: int) -> None:
            while any(len(client.told) < generation for client in some):
                await asyncio.sleep(0.1)

        for client in clients[:4]:
            tasks.create_task(follow(client, history, 0, texts))
        await told(clients[:4], 1)
        add(2)
        await told(clients[:4], 2)
        for client in clients[4:]:
            tasks.create_task(follow(client, history, 0, texts))
        await told(clients, 2)
        ended.set()
        history.close()
    assert len({id(client.told[0]) for client in clients[:4]}) == 1
    assert len({id(client.told[1]) for client in clients}) == 1, "who comes later, too"


async def test_a_small_step_is_put_into_words_once_for_all_who_take_it_at_once() -> None:
    history, texts = History(100, Generation(0)), step_events.StepEventCache()
    told: list[bytes] = []

    class Ready:
        """A client whose buffer always has room."""

        async def write(self, text: bytes) -> None:
            if b"event: change" in text:
                told.append(text)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(10):
            tasks.create_task(follow(Ready(), history, None, texts))
        await asyncio.sleep(0.1)
        history.add(Step(Generation(1), (Change(Generation(1), "node-added", "n1"),)))
        await asyncio.sleep(0.1)
        history.close()
    assert len(told) == 10
    assert len({id(text) for text in told}) == 1


async def test_a_silent_stream_shows_that_it_lives(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master, _stream(master) as stream:
        comments = [await stream.comment() for _ in range(3)]
        assert comments[0].startswith(": generation")
        assert comments[1:] == [": nothing new\n"] * 2


async def test_streams_beyond_the_limit_are_refused_and_a_closed_one_makes_room(
    token_flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_limits, "STREAMS", 1)
    async with running("--mode=dragonfly", token_flag) as master:
        async with _stream(master) as stream:
            await stream.comment()
            refused = await master.get("/v1/topology/events")
            assert refused.status == 503
            assert refused.headers["Retry-After"]
            assert "close one" in refused.json["fix"]
            metrics = (await master.get("/metrics")).body.decode()
            assert "topo_master_event_streams 1.0" in metrics
        await asyncio.sleep(2 * HEARTBEAT_S)  # writing to it fails
        async with _stream(master) as stream:
            await stream.comment()


async def test_the_end_of_the_master_ends_its_streams(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        url = f"{master.url}/v1/topology/events"
        response = await master.session.get(url, timeout=ClientTimeout())
        await response.content.readline()
        master.service.engine.history.close()
        await response.read()
        assert response.content.at_eof()
        response.close()


async def _named(stream: _Stream, name: str) -> Any:
    """The data of the next event of that name."""
    while True:
        told, _, data = await stream.event()
        if told == name:
            return data


async def test_holds_and_where_the_gpus_are_are_told_as_they_happen(tmp_path: Path) -> None:
    """With what the groups above have now; a capacity follows on the one that was told before."""
    async with placing(tmp_path, text=config(2, 2, 2)) as caller, _stream(caller.master) as stream:
        await stream.greeting()
        before = (await caller.master.get("/v1/topology")).json
        hold = (await caller.held(1))["hold"]["id"]
        told = read_json(HoldEventDocument, orjson.dumps(await _named(stream, "hold")))
        assert (told["event"], told["hold"]["id"], told["hold"]["gpus"]) == ("reserved", hold, 8)
        moved = read_json(CapacityEventDocument, orjson.dumps(await _named(stream, "capacity")))
        assert moved["since"] <= before["capacity_version"] < moved["capacity_version"]
        assert [(node["free_gpus"], node["held_gpus"]) for node in moved["nodes"]] == [(0, 8)]
        free = {
            "/".join(group["path"]): group["capacity"]["free_gpus"] for group in moved["groups"]
        }
        assert sorted(free.values()) == [8, 24], "of its dragonfly and of its switchbox"
        after = (await caller.master.get("/v1/topology?depth=0")).json
        assert after["capacity_version"] == moved["capacity_version"]
        await caller.delete(f"/v1/holds/{hold}")
        assert (await _named(stream, "hold"))["event"] == "released"
        assert (await _named(stream, "capacity"))["since"] == moved["capacity_version"]
        assert stream.last_id == "", "they have no id: whoever resumes resumes after a generation"


async def test_what_pods_take_of_shared_cards_is_told_though_no_whole_gpu_is_counted(
    tmp_path: Path,
) -> None:
    name, card = NodeName("n0-0-0"), Card("GPU-0", Amount(16, 100, 65536))
    async with placing(tmp_path, text=config(1, 2, 2)) as caller, _stream(caller.master) as stream:
        await stream.greeting()
        cards = caller.master.service.placements.state.cards
        cards.set_node(name, METAX, (card,))
        (first,) = (came := await _named(stream, "capacity"))["nodes"]
        assert first["cards"][0]["free"] == {"shares": 16, "cores": 100, "memory": 65536}
        cards.set_pod("uid", name, METAX, (CardShare("GPU-0", Amount(1, 60, 4096)),))
        (second,) = (taken := await _named(stream, "capacity"))["nodes"]
        assert second["cards"][0]["free"] == {"shares": 15, "cores": 40, "memory": 61440}
        assert (taken["since"], taken["groups"]) == (came["capacity_version"], [])
        after = (await caller.master.get("/v1/topology?depth=0")).json
        assert after["capacity_version"] == taken["capacity_version"] > taken["since"]
        cards.set_node(name, METAX, ())
        (third,) = (await _named(stream, "capacity"))["nodes"]
        assert third["cards"] == third["shared"] == []


async def test_a_cordon_is_told_and_what_comes_and_goes_between_two_looks_is_not(
    tmp_path: Path,
) -> None:
    async with placing(tmp_path, text=config(1, 2, 2)) as caller, _stream(caller.master) as stream:
        await stream.greeting()
        state = caller.master.service.placements.state
        for _ in range(2):
            state.follow_cluster([ClusterNode(name=NodeName("n0-0-0"), unschedulable=True)])
            state.follow_cluster([], [NodeName("n0-0-0")])
        await asyncio.sleep(1)
        state.follow_cluster([ClusterNode(name=NodeName("n0-0-0"), unschedulable=True)])
        told = await _named(stream, "capacity")
        assert told["nodes"] == [
            {
                "name": "n0-0-0",
                "free_gpus": 0,
                "used_gpus": 0,
                "held_gpus": 0,
                "cordoned": True,
            }
        ]
        before = (await caller.master.get("/v1/topology?depth=0")).json["capacity_version"]
        assert told["since"] < told["capacity_version"] == before


async def test_who_missed_a_change_before_it_listened_is_told_so_without_another(
    tmp_path: Path,
) -> None:
    """The first who listens and those who come later, with no change after they came."""
    async with placing(tmp_path, text=config(1, 2, 2)) as caller:
        before = (await caller.master.get("/v1/topology?depth=0")).json["capacity_version"]
        await caller.held(1)
        async with _stream(caller.master) as first, _stream(caller.master) as second:
            told = read_json(CapacityEventDocument, orjson.dumps(await first.greeting()))
            assert (told["groups"], told["nodes"]) == ([], [])
            assert before < told["since"] == told["capacity_version"]
            assert (await second.greeting())["since"] == told["since"]
            await caller.held(1)
            now = (await _named(first, "capacity"))["capacity_version"]
            async with _stream(caller.master) as third:
                assert (await third.greeting())["since"] == now


async def test_nothing_is_worked_out_where_nobody_listens(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        feed = caller.master.service.placements.feed
        await caller.held(1)
        await asyncio.sleep(1)
        assert feed.now == 0
        async with _stream(caller.master) as stream:
            await stream.comment()
            assert feed.listeners == 1
        await asyncio.sleep(2 * HEARTBEAT_S)  # writing to it fails
        assert feed.listeners == 0


def test_a_listener_that_is_too_slow_finds_its_place_gone() -> None:
    feed = BookingFeed(limit_bytes=10)
    for text in (b"1234", b"5678", b"90"):
        feed.add(text)
    assert feed.since(0) == (b"1234", b"5678", b"90")
    feed.add(b"x" * 100)
    assert feed.since(3) == (b"x" * 100,), "one that is too long alone is told"
    assert feed.since(2) is None
    assert feed.since(4) == ()
