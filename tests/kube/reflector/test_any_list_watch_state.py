"""Whatever happens to objects, connections and answers, in any order: the store is true in the end.

And who follows what is told knows the same as who looks into the store.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.kube.reflector import Changed, Listed, StoreEvent
from tests.kube import fake_server as fake
from tests.kube.fake_server import FakeServer, fake_server
from tests.kube.plain import kubeconfig
from tests.kube.reflector.reflecting import Reflecting, reflecting
from tests.support.virtual_time import in_virtual_time

FAULTS = (
    fake.refused(429, 2),
    fake.refused(503),
    fake.refused(504),
    fake.refused(410),
    fake.says(b"<html>a portal</html>"),
    fake.truncated,
    fake.stalled,
    fake.ended_at_once,
    fake.cut_each_line,
)

names = st.sampled_from(["a", "b", "c"])
steps = st.one_of(
    st.tuples(st.just("put"), names, st.booleans()),
    st.tuples(st.just("odd"), names),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("compact")),
    st.tuples(st.just("bookmark")),
    st.tuples(st.just("vanish unseen"), names),
    st.tuples(st.just("spoil"), st.sampled_from(["list", "watch"]), st.sampled_from(FAULTS)),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.05, 5.0, 100.0])),
)


class Follower:
    """Knows only what it is told."""

    def __init__(self) -> None:
        self.known: dict[str, bool] = {}

    def __call__(self, what: StoreEvent[Any]) -> None:
        if isinstance(what, Listed):
            self.known = {name: each.spec.unschedulable for (_, name), each in what.objects.items()}
        elif isinstance(what, Changed):
            self.known[what.object.metadata.name] = what.object.spec.unschedulable
        else:
            del self.known[what.object.metadata.name]


def stored(found: Reflecting) -> dict[str, bool]:
    objects = found.reflector.objects.items()
    return {name: each.spec.unschedulable for (_, name), each in objects}


async def do(server: FakeServer, step: tuple[Any, ...]) -> None:
    match step:
        case ("put", name, unschedulable):
            await server.put("nodes", name, spec={"unschedulable": unschedulable})
        case ("odd", name):
            await server.put("nodes", name, spec={"taints": "none"})
        case ("delete", name) if ("nodes", "", name) in server.objects:
            await server.delete("nodes", name)
        case ("vanish unseen", name):
            server.cut_watches()
            await do(server, ("delete", name))
            server.compact()
        case ("compact",):
            server.compact()
            server.cut_watches()
        case ("bookmark",):
            await server.bookmark()
        case ("spoil", verb, fault):
            server.spoil(verb, fault)
        case ("wait", wait_s):
            await asyncio.sleep(wait_s)


async def end(server: FakeServer) -> dict[str, bool]:
    """Ends all faults and mends all objects; the truth."""
    for faults in server.faults.values():
        faults.clear()
    for _, _, name in list(server.objects):
        await server.put("nodes", name, spec={"unschedulable": len(name) % 2 == 0})
    await server.put("nodes", "last", spec={"unschedulable": True})
    return {
        name: document["spec"]["unschedulable"] for (_, _, name), document in server.objects.items()
    }


@pytest.mark.slow
@given(st.lists(steps, max_size=25))
@settings(max_examples=60)
def test_the_store_is_true_in_the_end_and_told_as_it_is(course: list[tuple[Any, ...]]) -> None:
    async def run(folder: Path) -> None:
        async with (
            fake_server() as server,
            reflecting(kubeconfig(folder, server.url)) as found,
        ):
            follower = Follower()
            found.reflector.subscribe(follower)
            for step in course:
                await do(server, step)
                assert follower.known == stored(found)
            truth = await end(server)
            await found.ear.until(lambda: stored(found) == truth)
            assert follower.known == truth
            assert found.measured("unreadable_objects", resource="nodes") == 0

    with tempfile.TemporaryDirectory() as folder:
        in_virtual_time(run(Path(folder)))
