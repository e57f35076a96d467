"""The state in ConfigMaps: whole or not there, small enough, seldom written, never lost unread."""

import asyncio
import base64
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from bench.discovery.core import built_state
from master.kube.client import Call
from master.kube.errors import KubeError
from master.state.config_maps import BYTES_PER_S, LOAD_S, ConfigMapStore
from master.state.document import SavedDiscovery, State
from tests.kube.config_maps import DOMAIN, Maps
from tests.master.state.test_pieces import forged
from topo.discovery.memory import Memory
from topo.discovery.modes import Mode
from topo.model.errors import BadInputError
from topo.model.ids import Generation
from topo.placement.booking.holds import ClockReading, HoldsMemory

pytestmark = pytest.mark.virtual_time

MODE = Mode.SWITCHBOX


def store_in(
    maps: Maps,
    may_write: Callable[[], bool] = lambda: True,
    on_late: Callable[[], None] = lambda: None,
) -> ConfigMapStore:
    clock = asyncio.get_running_loop().time
    return ConfigMapStore(maps, "topo", DOMAIN, may_write=may_write, on_late=on_late, clock=clock)


def discovery(nodes: int = 4, saved_at_s: float = 1e9, generation: int | None = None):
    memory = built_state(nodes).persistent_state()
    if generation is not None:
        memory = Memory(**{**_fields(memory), "generation": Generation(generation)})
    return SavedDiscovery.of(memory, saved_at_s)


def _fields(memory: Memory) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in Memory.__slots__}


def holds(clock_s: float = 1.0) -> HoldsMemory:
    """Holds that differ by the moment at which they were saved."""
    return HoldsMemory(1, (), ClockReading("boot", clock_s, 1e9))


async def saved(maps: Maps, *judgements: SavedDiscovery) -> None:
    store = store_in(maps)
    await store.load(MODE, 2e9)
    for judgement in judgements or (discovery(),):
        await store.save(judgement, MODE, holds())


async def loaded(maps: Maps, mode: Mode = MODE, now_s: float = 1e9 + 60) -> Any:
    return await store_in(maps).load(mode, now_s)


async def test_what_was_saved_is_found_by_another_master_and_its_age_is_known() -> None:
    maps, judgement = Maps(), discovery()
    store = store_in(maps)
    assert await store.load(MODE, 1e9) is None
    assert store.is_new
    await store.save(judgement, MODE, holds(7.0))
    other = store_in(maps)
    found = await other.load(MODE, 1e9 + 60)
    assert isinstance(found, State)
    assert found.memory == built_state(4).persistent_state(), "sets are written in any order"
    assert found.holds == holds(7.0)
    assert other.age_s(1e9 + 60) == 60
    assert not other.is_new


async def test_holds_cost_etcd_their_own_size_and_not_that_of_the_cluster() -> None:
    maps, judgement = Maps(), discovery(1000)
    store = store_in(maps)
    await store.load(MODE, 2e9)
    whole_s = await store.save(judgement, MODE, holds(1.0))
    maps.writes()
    small_s = await store.save(judgement, MODE, holds(2.0))
    written = maps.writes()
    assert [call.method for call in written] == ["POST", "DELETE"]
    assert len(written[0].body or b"") < 1000
    assert small_s < whole_s
    found = await loaded(maps)
    assert found.holds == holds(2.0)


async def test_a_judgement_that_is_the_same_is_not_written_again_but_its_age_is() -> None:
    maps = Maps()
    await saved(maps, discovery(saved_at_s=1e9), discovery(saved_at_s=1e9 + 30))
    assert len(maps.names("memory")) == 1
    assert (await loaded(maps)).saved_at_s == 1e9 + 30


async def test_each_save_takes_the_place_of_the_one_before() -> None:
    maps = Maps()
    await saved(maps, *(discovery(generation=number) for number in range(5, 15)))
    assert [len(maps.names(part)) for part in ("memory", "about")] == [1, 1]
    assert (await loaded(maps)).memory.generation == 14


@pytest.mark.parametrize("calls", range(9))
async def test_a_save_that_breaks_off_anywhere_leaves_the_one_before_or_itself(
    calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("master.state.config_maps.PIECE_BYTES", 300)
    maps = Maps()
    await saved(maps, discovery(generation=5))
    assert len(maps.names("memory")) > 2
    store, left = store_in(maps), [calls]
    await store.load(MODE, 2e9)

    def dies(_: Call) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KubeError("the connection broke")

    maps.fails = dies
    with suppress(OSError):
        await store.save(discovery(generation=6), MODE, holds())
    assert left[0] < 0
    maps.fails = lambda _: None
    found = await loaded(maps)
    assert found.memory.generation in {5, 6}
    await store.save(discovery(generation=6), MODE, holds())
    assert (await loaded(maps)).memory.generation == 6
    assert len({name.rpartition("-")[0] for name in maps.stored}) == 2, "what broke off is deleted"


@pytest.mark.slow
async def test_ten_thousand_nodes_fit_in_a_few_maps_and_say_what_they_cost() -> None:
    maps, judgement = Maps(), discovery(10_000)
    store = store_in(maps)
    await store.load(MODE, 2e9)
    cost_s = await store.save(judgement, MODE, holds())
    assert 2 <= len(maps.stored) <= 5
    packed = sum(len(m["binaryData"]["piece"]) * 3 / 4 for m in maps.stored.values())
    assert cost_s >= packed / BYTES_PER_S - 0.001
    assert (await loaded(maps)).memory.generation == judgement.generation


async def test_many_maps_are_read_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("master.state.config_maps.PIECE_BYTES", 200)
    maps = Maps()
    await saved(maps, discovery(60))
    assert len(maps.stored) > 20
    maps.asked.clear()
    assert isinstance(await loaded(maps), State)
    assert len(maps.asked) > 1


async def test_a_state_of_another_mode_is_put_aside_when_it_is_replaced_and_not_before() -> None:
    maps = Maps()
    await saved(maps)
    before = set(maps.stored)
    store = store_in(maps)
    with capture_logs() as logs:
        found = await store.load(Mode.DRAGONFLY, 2e9)
    assert not isinstance(found, State)
    assert "mode switchbox" in str(logs)
    assert not maps.writes()[2:], "a master that ends now leaves all as it was"
    await store.save(discovery(), Mode.DRAGONFLY, holds())
    assert set(maps.names("unusable")) == before
    assert isinstance(await loaded(maps, Mode.DRAGONFLY), State)


async def test_a_set_that_was_damaged_is_told_and_kept() -> None:
    maps = Maps()
    await saved(maps)
    (name,) = maps.names("about")
    content = bytearray(base64.b64decode(maps.stored[name]["binaryData"]["piece"]))
    content[-1] ^= 1
    maps.stored[name]["binaryData"]["piece"] = base64.b64encode(content).decode()
    store = store_in(maps)
    with capture_logs() as logs:
        assert await store.load(MODE, 2e9) is None
    assert "digest" in str(logs)
    assert not store.is_new
    await store.save(discovery(), MODE, holds())
    assert name in maps.names("unusable")


@pytest.mark.parametrize("broken", [b"", b"\0", b"x" * 100, forged(b"no state")], ids=len)
async def test_whatever_somebody_put_there_is_no_reason_to_end(broken: bytes) -> None:
    maps = Maps()
    await saved(maps)
    for stored in maps.stored.values():
        stored["binaryData"] = {"piece": base64.b64encode(broken).decode()}
    assert await loaded(maps) is None
    for stored in maps.stored.values():
        stored["binaryData"] = {"piece": "no base64 ="}
        stored["metadata"]["labels"][f"{DOMAIN}/save"] = "first"
    assert await loaded(maps) is None


async def test_who_leads_no_longer_writes_nothing_more() -> None:
    maps, leading = Maps(), [True]
    store = store_in(maps, lambda: leading[0])
    await store.load(MODE, 2e9)
    maps.fails = lambda call: leading.__setitem__(0, call.method == "GET")
    with pytest.raises(OSError, match="leads no longer"):
        await store.save(discovery(), MODE, holds())
    assert len(maps.writes()) == 1


class Dying:
    """A leader's way to the server: one of its writes is on its way when the leader ends."""

    def __init__(self, maps: Maps, late: int) -> None:
        self.maps, self.left, self.last = maps, late, list[Call]()

    async def call(self, call: Call) -> bytes:
        """See `KubeClient.call`."""
        if call.method != "GET":
            self.left -= 1
        if self.left < 0:
            self.last.append(call)
            raise KubeError("no answer in time")
        return await self.maps.call(call)


async def left_by_a_dead_leader(maps: Maps, late: int, generation: int) -> Call:
    """Its last write, which has not arrived yet, of a save of that judgement."""
    way = Dying(maps, late)
    dead = ConfigMapStore(way, "topo", DOMAIN)
    await dead.load(MODE, 2e9)
    with pytest.raises(OSError, match="no answer in time"):
        await dead.save(discovery(generation=generation), MODE, holds(99.0))
    first, *_ = way.last
    return first


@pytest.mark.parametrize("late", range(4))
async def test_a_write_of_a_dead_leader_that_comes_late_is_written_over(
    late: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is the next one of the leader that has read before; holds in it were promised to
    nobody, those of the leader are kept.
    """
    monkeypatch.setattr("master.state.config_maps.PIECE_BYTES", 800)
    maps, met = Maps(), list[None]()
    await saved(maps, discovery(generation=5))
    last = await left_by_a_dead_leader(maps, late, 6)
    store = store_in(maps, on_late=lambda: met.append(None))
    await store.load(MODE, 2e9)
    await maps.call(last)
    for clock_s in (3.0, 4.0):
        await store.save(discovery(generation=7), MODE, holds(clock_s))
        found = await loaded(maps)
        assert found.memory.generation == 7
        assert found.holds == holds(clock_s)
    assert len(met) == (late == 0), "the others are under a number that was passed"
    await saved(maps, discovery(generation=8))
    assert len({name.rpartition("-")[0] for name in maps.stored}) == 2, "nothing of it is left"


async def test_of_a_dead_leader_a_later_judgement_is_put_aside_and_counted_once() -> None:
    """Ours is of a leader that has heard its sources, or beside which only holds are saved."""
    maps, met = Maps(), list[None]()
    await saved(maps, discovery(generation=5))
    last = await left_by_a_dead_leader(maps, 0, 9)
    store = store_in(maps, on_late=lambda: met.append(None))
    await store.load(MODE, 2e9)
    await maps.call(last)
    with capture_logs() as logs:
        await store.save(discovery(generation=5), MODE, holds(3.0))
    (told,) = [line for line in logs if "came late" in line["event"]]
    assert (told["generation"], told["ours"], told["put_aside"]) == (9, 5, True)
    assert maps.names("unusable") == told["names"]
    found = await loaded(maps)
    assert (found.memory.generation, found.holds) == (5, holds(3.0))
    assert len(met) == 1


async def test_while_the_server_is_ill_a_late_write_is_met_at_the_next_save() -> None:
    maps = Maps()
    await saved(maps, discovery(generation=5))
    last = await left_by_a_dead_leader(maps, 0, 6)
    store = store_in(maps)
    await store.load(MODE, 2e9)
    await maps.call(last)

    def ill(call: Call) -> None:
        if call.method == "GET":
            raise KubeError("busy", status=503)

    maps.fails = ill
    with pytest.raises(BlockingIOError, match="busy"):
        await store.save(discovery(generation=7), MODE, holds())
    maps.fails = lambda _: None
    await store.save(discovery(generation=7), MODE, holds())
    assert (await loaded(maps)).memory.generation == 7


async def test_two_masters_that_save_at_once_find_out() -> None:
    """Each may take the other's first save for the last one of a leader that has ended."""
    maps = Maps()
    one, other = store_in(maps), store_in(maps)
    for store in (one, other):
        await store.load(MODE, 2e9)
    for generation, store in enumerate((one, other, one), start=5):
        await store.save(discovery(generation=generation), MODE, holds())
    for _ in range(2):
        with pytest.raises(OSError, match=r"another master keeps its state there.*--leader-elect"):
            await other.save(discovery(generation=9), MODE, holds())
    await one.save(discovery(generation=8), MODE, holds())
    assert (await loaded(maps)).memory.generation == 8


async def test_a_conflict_that_is_not_about_the_name_passes() -> None:
    """A quota of the namespace that several requests count at once answers one of them so."""
    maps = Maps()
    store = store_in(maps)
    await store.load(MODE, 2e9)

    def busy(_: Call) -> None:
        raise KubeError("the object has been modified", status=409, reason="Conflict")

    maps.fails = busy
    with pytest.raises(BlockingIOError, match="has been modified"):
        await store.save(discovery(), MODE, holds())
    maps.fails = lambda _: None
    await store.save(discovery(), MODE, holds())
    assert isinstance(await loaded(maps), State)


async def test_an_answer_that_was_lost_is_no_other_master() -> None:
    maps, lost = Maps(), [True]
    store = store_in(maps)
    await store.load(MODE, 2e9)
    create = maps._create

    def loses(made: dict[str, Any]) -> bytes:
        answer = create(made)
        if lost:
            lost.clear()
            raise KubeError("no answer in time")
        return answer

    maps._create = loses  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no answer in time"):
        await store.save(discovery(), MODE, holds())
    await store.save(discovery(), MODE, holds())
    assert [len(maps.names(part)) for part in ("memory", "about")] == [1, 1]


async def test_an_ill_server_is_asked_again_and_one_that_denies_ends_the_start() -> None:
    maps, loop = Maps(), asyncio.get_running_loop()
    await saved(maps)

    def ill(_: Call) -> None:
        if loop.time() < began_s + LOAD_S / 2:
            raise KubeError("busy", status=503)

    began_s, maps.fails = loop.time(), ill
    assert isinstance(await loaded(maps), State)
    began_s += 1000
    with pytest.raises(BadInputError, match="cannot be read: busy"):
        await loaded(maps)

    def denies(_: Call) -> None:
        raise KubeError("no", status=403)

    maps.fails = denies
    began_s = loop.time()
    with pytest.raises(BadInputError, match="allow list, create, patch and delete of configmaps"):
        await loaded(maps)
    assert loop.time() == began_s


async def test_a_list_that_is_none_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = Maps()

    async def answers(_: Call) -> bytes:
        return json.dumps({"items": "many"}).encode()

    monkeypatch.setattr(maps, "call", answers)
    with pytest.raises(BadInputError, match="cannot be read"):
        await loaded(maps)


@pytest.mark.parametrize(
    ("status", "passes"), [(None, True), (429, True), (503, True), (403, False)]
)
async def test_who_saves_can_tell_what_passes_by_itself(status: int | None, passes: bool) -> None:  # noqa: FBT001
    """A master that ends asks a busy API server again, and one without rights not."""
    maps = Maps()
    store = store_in(maps)
    await store.load(MODE, 2e9)

    def fails(_: Call) -> None:
        raise KubeError("no", status=status)

    maps.fails = fails
    with pytest.raises(OSError, match="no") as raised:
        await store.save(discovery(), MODE, holds())
    assert isinstance(raised.value, BlockingIOError) == passes
