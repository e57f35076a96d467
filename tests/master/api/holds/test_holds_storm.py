"""Many clients hold, commit and release at once while nodes come and go: nothing is taken twice.

In real time: the clients never pause, so a virtual clock would stand still.
"""

import asyncio
import random
from collections import Counter
from itertools import count
from pathlib import Path

from tests.master.placing import Caller, config, placing
from tests.master.world import Master
from tests.support.waiting import eventually

CLIENTS, STEPS, SHAKES = 12, 25, 6
SIZES = ((1, 4), (1, 8), (2, 8), (4, 8), (6, 8), (3, 4))


async def client(caller: Caller, choice: random.Random, over: asyncio.Event) -> Counter[str]:
    """Does what clients do, in a random order, until it is over; what came of it."""
    seen: Counter[str] = Counter()
    mine: list[str] = []
    for step in count():
        if step >= STEPS and over.is_set():
            break
        what = choice.random()
        if what < 0.5 or not mine:
            pods, gpus = choice.choice(SIZES)
            body: dict[str, float | str] = {
                "pods": pods,
                "gpus_per_pod": gpus,
                "hold_s": choice.choice([0.05, 30]),
            }
            if body["hold_s"] == 30 and choice.random() < 0.6:  # one that ends gives its key back
                body["key"] = f"{id(choice)}-{step}"
            answers = await asyncio.gather(
                *(caller.post("/v1/holds", body) for _ in range(2 if "key" in body else 1))
            )
            held = {a.json["hold"]["id"] for a in answers if a.json.get("feasible")}
            assert len(held) <= 1, "a key is one hold"
            assert {a.status for a in answers} == {200}
            mine += held
            seen["held" if held else "refused"] += 1
        elif what < 0.7:
            seen[str((await caller.post(f"/v1/holds/{choice.choice(mine)}/commit")).status)] += 1
        else:
            gone = mine.pop(choice.randrange(len(mine)))
            seen[str((await caller.delete(f"/v1/holds/{gone}")).status)] += 1
    return seen


async def shake(home: Path, master: Master, over: asyncio.Event) -> None:
    """Takes a node away and brings it back, as often as it says; each time the tree follows."""
    path, whole = home / "nodegroup.yaml", config()
    for turn in range(SHAKES):
        before = master.service.engine.snapshot.generation
        path.write_text(whole if turn % 2 else whole.replace(f"n0-0-{turn % 3}, ", ""))
        await eventually(lambda: master.service.engine.snapshot.generation > before)  # noqa: B023
    over.set()


async def test_a_storm_of_clients_never_takes_anything_twice(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        over = asyncio.Event()
        shaking = asyncio.create_task(shake(tmp_path, caller.master, over))
        choices = [random.Random(seed) for seed in range(CLIENTS)]  # noqa: S311
        clients = [client(caller, choice, over) for choice in choices]
        seen = sum(await asyncio.gather(*clients), Counter[str]())
        await shaking
        assert seen["held"] > CLIENTS
        assert seen["refused"] > 0
        assert seen.keys() <= {"held", "refused", "200", "410"}
        placements = caller.master.service.placements
        capacity = placements.state._capacity
        placements.state.advance()  # the timer ends holds a moment later than readers see them end
        taken = Counter[str]()
        for hold in placements.state.holds():
            taken.update(hold.gpus)
            assert capacity.bookings()[hold.id] == hold.gpus
        assert max(taken.values(), default=0) <= 8
        assert set(capacity.bookings()) == {hold.id for hold in placements.state.holds()}
        assert capacity.recount() == ()
        assert placements.state._bookings.recount() == ()
        for hold in placements.state.holds():
            await caller.delete(f"/v1/holds/{hold.id}")
        assert not capacity.bookings()
