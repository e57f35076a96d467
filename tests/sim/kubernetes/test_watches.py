"""A watch tells what a client must know, and no more."""

import asyncio
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.kubernetes.calls import NODES, PODS, api, call, node, pod
from topo.sim.kubernetes.apiserver.api import Api
from topo.sim.kubernetes.apiserver.merging import MERGE
from topo.sim.kubernetes.apiserver.watches import lines_since

UNFINISHED = {"fieldSelector": "status.phase!=Succeeded"}


def told(server: Api, path: str, version: int, **query: str) -> list[tuple[str, str]]:
    """What happened to which object."""
    place = server.kinds.find(path)
    assert place is not None
    lines = [orjson.loads(line) for line in lines_since(server.store, place, query, version)]
    return [(line["type"], line["object"].get("metadata", {}).get("name", "")) for line in lines]


async def test_an_object_that_a_selector_means_no_more_is_told_as_deleted() -> None:
    server = api()
    begun = server.store.version
    await call(server, "POST", PODS, pod("p"))
    ended = {"status": {"phase": "Succeeded"}}
    await call(server, "PATCH", f"{PODS}/p/status", ended, as_=MERGE)
    await call(server, "DELETE", f"{PODS}/p")
    assert told(server, PODS, begun, **UNFINISHED) == [("ADDED", "p"), ("DELETED", "p")]
    succeeded = {"fieldSelector": "status.phase=Succeeded"}
    assert told(server, "/api/v1/pods", begun, **succeeded) == [("ADDED", "p"), ("DELETED", "p")]
    assert told(server, NODES, begun) == []


async def test_a_forgotten_version_is_an_error_and_bookmarks_come_to_who_asks() -> None:
    server = api()
    begun = server.store.version
    await call(server, "POST", NODES, node("a"))
    server.store.bookmark()
    assert told(server, NODES, begun) == [("ADDED", "a")]
    marked = told(server, NODES, begun, allowWatchBookmarks="true")
    assert marked == [("ADDED", "a"), ("BOOKMARK", "")]
    server.store.compact()
    assert [what for what, _ in told(server, NODES, begun)] == ["ERROR"]
    assert told(server, NODES, server.store.version) == []
    later = server.store.version + 1
    assert [what for what, _ in told(server, NODES, later)] == ["ERROR"], "it lies in the future"


ACTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "end", "delete"]), st.integers(0, 2)),
    max_size=20,
)


@given(acts=ACTS, listed_after=st.integers(0, 20))
def test_a_list_and_the_watch_after_it_give_what_a_new_list_gives(
    acts: list[tuple[str, str, int]], listed_after: int
) -> None:
    """The copy that a client keeps by the events alone, held against the objects themselves."""

    async def run() -> None:
        server, copy, version = api(), dict[str, Any](), 0
        for number, (name, act, value) in enumerate([*acts, ("a", "delete", 0)]):
            if number == min(listed_after, len(acts)):
                page = await call(server, "GET", PODS, **UNFINISHED)
                version = int(page["metadata"]["resourceVersion"])
                copy = {each["metadata"]["name"]: _seen(each) for each in page["items"]}
            await _act(server, name, act, value)
        place = server.kinds.find(PODS)
        assert place is not None
        for line in lines_since(server.store, place, UNFINISHED, version):
            event = orjson.loads(line)
            name = event["object"]["metadata"]["name"]
            if event["type"] == "DELETED":
                del copy[name]
            else:
                assert (name in copy) == (event["type"] == "MODIFIED")
                copy[name] = _seen(event["object"])
        page = await call(server, "GET", PODS, **UNFINISHED)
        assert copy == {each["metadata"]["name"]: _seen(each) for each in page["items"]}

    asyncio.run(run())


async def _act(server: Api, name: str, act: str, value: int) -> None:
    is_there = (PODS, name) in server.store.objects
    if act == "delete" and is_there:
        await call(server, "DELETE", f"{PODS}/{name}")
    elif act == "end" and is_there:
        ended = {"status": {"phase": "Succeeded"}}
        await call(server, "PATCH", f"{PODS}/{name}/status", ended, as_=MERGE)
    elif is_there:
        patch = {"metadata": {"labels": {"value": str(value)}}}
        await call(server, "PATCH", f"{PODS}/{name}", patch, as_=MERGE)
    else:
        await call(server, "POST", PODS, pod(name))


def _seen(document: dict[str, Any]) -> tuple[str, Any]:
    metadata = document["metadata"]
    return metadata["resourceVersion"], metadata.get("labels")
