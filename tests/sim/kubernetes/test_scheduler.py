"""The simulated scheduler binds as kube-scheduler does where the product relies on it."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.kubernetes.calls import GATE, NODES, PODS, api, call, node, pod
from topo.sim.kubernetes.apiserver.api import Api
from topo.sim.kubernetes.apiserver.merging import MERGE, STRATEGIC
from topo.sim.kubernetes.scheduler import Bound, SchedulerCache, Unschedulable

GPU = "metax-tech.com/gpu"


def scheduled(server: Api) -> SchedulerCache:
    """A scheduler that follows the server."""
    cache = SchedulerCache()
    server.store.listeners.append(cache.observe)
    return cache


async def bind_all(server: Api, cache: SchedulerCache) -> dict[str, str]:
    """Binds what can be bound; for each pod that was tried its node, or why there is none."""
    found = {}
    for decision in cache.decide():
        collection, name = decision.pod
        if isinstance(decision, Bound):
            target = {"target": {"name": decision.node}}
            await call(server, "POST", f"{collection}/{name}/binding", target)
            found[name] = decision.node
        else:
            assert isinstance(decision, Unschedulable)
            found[name] = decision.why
    return found


async def nominate(server: Api, name: str, to: str) -> None:
    patch = {"status": {"nominatedNodeName": to}}
    await call(server, "PATCH", f"{PODS}/{name}/status", patch, as_=MERGE)


async def opened(server: Api, name: str) -> None:
    gates = {"spec": {"schedulingGates": [{**GATE, "$patch": "delete"}]}}
    await call(server, "PATCH", f"{PODS}/{name}", gates, as_=STRATEGIC)


@pytest.fixture
async def server() -> Api:
    return api()


async def test_a_gated_pod_waits_and_goes_where_it_is_nominated_once_it_is_open(
    server: Api,
) -> None:
    cache = scheduled(server)
    for name in ("a", "b"):
        await call(server, "POST", NODES, node(name))
    await call(server, "POST", PODS, pod("p", gated=True))
    await nominate(server, "p", "b")
    assert await bind_all(server, cache) == {}
    await opened(server, "p")
    assert await bind_all(server, cache) == {"p": "b"}


async def test_room_that_a_pod_is_nominated_to_is_left_to_it_but_by_higher_priorities(
    server: Api,
) -> None:
    cache = scheduled(server)
    await call(server, "POST", NODES, node("a"))
    await call(server, "POST", PODS, pod("planned", gated=True))
    await nominate(server, "planned", "a")
    await call(server, "POST", PODS, pod("other"))
    why = (await bind_all(server, cache))["other"]
    assert why == f"0/1 nodes are available: 1 Insufficient {GPU}."
    await call(server, "POST", PODS, pod("urgent", priority=10))
    assert (await bind_all(server, cache))["urgent"] == "a"


async def test_pods_without_groups_are_spread_over_the_nodes_with_most_room(server: Api) -> None:
    cache = scheduled(server)
    for name in ("node-2", "node-10", "node-1"):
        await call(server, "POST", NODES, node(name))
    for number in range(4):
        await call(server, "POST", PODS, pod(f"p{number}", gpus=4))
    found = await bind_all(server, cache)
    assert list(found.values()) == ["node-1", "node-2", "node-10", "node-1"]


async def test_a_refused_pod_is_tried_again_only_when_something_may_have_come_free(
    server: Api,
) -> None:
    cache = scheduled(server)
    await call(server, "POST", NODES, node("a"))
    await call(server, "POST", PODS, pod("first"))
    await call(server, "POST", PODS, pod("second"))
    assert (await bind_all(server, cache))["first"] == "a"
    status: Any = {"status": {"conditions": []}}
    await call(server, "PATCH", f"{PODS}/second/status", status, as_=MERGE)
    assert await bind_all(server, cache) == {}, "a status is no reason"
    ended = {"status": {"phase": "Succeeded"}}
    await call(server, "PATCH", f"{PODS}/first/status", ended, as_=MERGE)
    assert await bind_all(server, cache) == {"second": "a"}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"nodeSelector": {"zone": "2"}}, "2 node(s) didn't match Pod's node affinity/selector"),
        ({"affinity": {"podAffinity": {}}}, "does not read affinity"),
        ({"nodeSelector": {"zone": "1"}}, "1 node(s) had untolerated taint"),
        ({"nodeSelector": {"zone": "3"}}, "1 node(s) were unschedulable"),
    ],
)
async def test_a_pod_that_fits_nowhere_is_told_why(
    server: Api, spec: dict[str, Any], words: str
) -> None:
    cache = scheduled(server)
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    await call(server, "POST", NODES, {**node("a", zone="1"), "spec": {"taints": [taint]}})
    await call(server, "POST", NODES, {**node("b", zone="3"), "spec": {"unschedulable": True}})
    await call(server, "POST", PODS, pod("p", **spec))
    assert words in (await bind_all(server, cache))["p"]


async def test_a_tolerated_taint_and_another_schedulers_pods_are_left_alone(server: Api) -> None:
    cache = scheduled(server)
    taint = {"key": "maintenance", "value": "yes", "effect": "NoSchedule"}
    await call(server, "POST", NODES, {**node("a"), "spec": {"taints": [taint]}})
    tolerations = [{"key": "maintenance", "value": "yes"}, {"operator": "Exists", "key": "x"}]
    await call(server, "POST", PODS, pod("p", tolerations=tolerations))
    await call(server, "POST", PODS, pod("theirs", schedulerName="volcano"))
    assert await bind_all(server, cache) == {"p": "a"}


ACTS = st.lists(
    st.tuples(st.sampled_from(["add", "end", "delete", "cordon"]), st.integers(0, 5)), max_size=25
)


@given(acts=ACTS)
def test_no_node_gives_more_than_it_has_and_no_pod_waits_for_room_that_there_is(
    acts: list[tuple[str, int]],
) -> None:
    """Judged by counting the objects from nothing, in whatever order things come and go."""

    async def run() -> None:
        server = api()
        cache = scheduled(server)
        for name in ("a", "b"):
            await call(server, "POST", NODES, node(name))
        for number, (act, value) in enumerate(acts):
            await _act(server, act, value, number)
            await bind_all(server, cache)
        free = Counter({"a": 8, "b": 8})
        waiting = []
        for found in (await call(server, "GET", PODS))["items"]:
            at = found["spec"].get("nodeName")
            gpus = int(found["spec"]["containers"][0]["resources"]["limits"][GPU])
            if found["status"]["phase"] != "Succeeded":
                free.subtract({at: gpus} if at else {})
                waiting += [] if at else [gpus]
        assert min(free["a"], free["b"]) >= 0
        closed = await call(server, "GET", f"{NODES}/b")
        open_nodes = ["a"] if closed.get("spec", {}).get("unschedulable") else ["a", "b"]
        assert not [gpus for gpus in waiting if any(free[name] >= gpus for name in open_nodes)]

    asyncio.run(run())


async def _act(server: Api, act: str, value: int, number: int) -> None:
    names = sorted(name for at, name in server.store.objects if at == PODS)
    chosen = names[value % len(names)] if names else ""
    if act == "add":
        await call(server, "POST", PODS, pod(f"p{number}", gpus=2 * (1 + value % 4)))
    elif act == "cordon":
        patch = {"spec": {"unschedulable": value % 2 == 0}}
        await call(server, "PATCH", f"{NODES}/b", patch, as_=MERGE)
    elif chosen and act == "delete":
        await call(server, "DELETE", f"{PODS}/{chosen}")
    elif chosen and "nodeName" in server.store.objects[PODS, chosen].document["spec"]:
        ended = {"status": {"phase": "Succeeded"}}
        await call(server, "PATCH", f"{PODS}/{chosen}/status", ended, as_=MERGE)
