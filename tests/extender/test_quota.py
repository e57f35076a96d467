"""GPUManager's quota: which nodes a namespace may use, as gpu-admission keeps it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.extender.model import Asking, asked
from tests.kube.fake_server import FakeServer, fake_server
from tests.support.kubernetes import node_status
from topo.model.errors import Refusal
from topo.shared_cards.quota import (
    EXCEEDS,
    NamespaceQuota,
    is_allowed,
    open_models,
    read_quotas,
)

MODEL, POOL = "gaia.tencent.com/gpu-model", "gaia.tencent.com/gpu-pool"
CORE, MEMORY = "tencent.com/vcuda-core", "tencent.com/vcuda-memory"
PUBLISHED = {
    "default": {"pool": ["public"], "quota": {"M40": 4, "P100": 4}},
    "B": {"pool": ["wx"], "quota": {"M40": 8, "P100": 2}},
}
"""Our own copy of what gpu-admission publishes as an example (test/gpu_quota.json)."""
MODELS = st.sampled_from(["M40", "P100", "V100"])


def test_the_published_example_is_read() -> None:
    assert read_quotas(json.dumps(PUBLISHED)) == {
        "default": NamespaceQuota({"M40": 4, "P100": 4}, ("public",)),
        "B": NamespaceQuota({"M40": 8, "P100": 2}, ("wx",)),
    }


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{", "gpu_quota"),
        pytest.param("[" * 100_000, "gpu_quota", id="deep"),
        ("[]", "gpu_quota"),
        ('{"a": 1}', "a"),
        ('{"a": {"quota": {"M40": "8"}}}', "a.quota.M40"),
        ('{"a": {"quota": {"M40": -1}}}', "a.quota.M40"),
        ('{"a": {"quota": [1]}}', "a.quota"),
        ('{"a": {"pool": "public"}}', "a.pool"),
        ('{"a": {"pool": [1]}}', "a.pool"),
        ('{"a": {"qouta": {"M40": 1}}}', "a.qouta"),
    ],
)
def test_a_quota_that_cannot_be_kept_is_refused_with_its_place(text: str, where: str) -> None:
    found = read_quotas(text)
    assert isinstance(found, Refusal)
    assert found.where == where


def test_keys_are_read_in_any_case_as_go_reads_them() -> None:
    assert read_quotas('{"a": {"Quota": {"M40": 1}, "POOL": ["p"]}}') == {
        "a": NamespaceQuota({"M40": 1}, ("p",))
    }


@given(
    cards=st.dictionaries(MODELS, st.integers(0, 5)),
    used=st.dictionaries(MODELS, st.integers(0, 600)),
    asks=st.integers(1, 300),
    model=MODELS,
    pools=st.lists(st.sampled_from(["a", "b"]), max_size=2),
    pool=st.sampled_from(["a", "b", ""]),
)
def test_a_node_is_allowed_where_the_cards_with_the_pods_own_are_within_the_quota(
    cards: dict[str, int],
    used: dict[str, int],
    asks: int,
    model: str,
    pools: list[str],
    pool: str,
) -> None:
    quota = NamespaceQuota(cards, tuple(pools))
    allowed = is_allowed(quota, open_models(quota, used, asks), model, pool)
    # Counted in cards, with the quota of a model that is not named as none at all.
    enough = model in cards and (used.get(model, 0) + asks) / 100 <= cards[model]
    assert allowed == (enough and (pool in pools or not pools))


NODES = {
    "m40-public": ("M40", "public"),
    "m40-wx": ("M40", "wx"),
    "p100-public": ("P100", "public"),
    "plain": ("", ""),
}


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with fake_server() as running:
        for name, (model, pool) in NODES.items():
            labels = {key: value for key, value in ((MODEL, model), (POOL, pool)) if value}
            status = node_status(8, **{CORE: "800", MEMORY: "480"})
            await running.put("nodes", name, metadata={"labels": labels}, spec={}, status=status)
        await put_quota(running, PUBLISHED)
        yield running


async def put_quota(server: FakeServer, quota: object) -> None:
    text = quota if isinstance(quota, str) else json.dumps(quota)
    await server.put("configmaps", "gpuquota", "kube-system", data={"gpu_quota": text})


async def pod(
    server: FakeServer, name: str, core: int, node: str = "", namespace: str = "default"
) -> dict[str, Any]:
    """A pod that asks for so many hundredths of a card."""
    amounts = {CORE: str(core), MEMORY: "8"}
    resources = {"limits": amounts, "requests": amounts}
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": resources}]}
    if node:
        spec["nodeName"] = node
    parts = {"metadata": {"uid": f"uid-{name}"}, "spec": spec, "status": {"phase": "Pending"}}
    await server.put("pods", name, namespace, **parts)
    metadata = {**parts["metadata"], "name": name, "namespace": namespace}
    return {**parts, "metadata": metadata}


def node_list(*names: str) -> dict[str, Any]:
    """Whole nodes, as a scheduler without `nodeCacheCapable` sends them."""
    return {
        "items": [
            {"metadata": {"name": n, "labels": {MODEL: NODES[n][0], POOL: NODES[n][1]}}, "spec": {}}
            for n in names
        ]
    }


async def passed(asking: Asking, asked_pod: Any, call: str = "predicates") -> list[str]:
    """The names of the nodes that pass, in whole nodes out for whole nodes in."""
    found = await asking.ask(call, {"Pod": asked_pod, "Nodes": node_list(*NODES)})
    assert not found["Error"]
    names = [each["metadata"]["name"] for each in found["Nodes"]["items"]]
    assert set(names) | set(found["FailedNodes"]) == set(NODES)
    return names


@pytest.mark.virtual_time
async def test_a_namespace_gets_nodes_of_its_pools_and_of_models_within_its_quota(
    server: FakeServer, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        assert await passed(asking, await pod(server, "a", 100)) == ["m40-public", "p100-public"]
        await pod(server, "full", 400, node="m40-public")
        await asyncio.sleep(6)
        assert await passed(asking, await pod(server, "b", 1)) == ["p100-public"]
        assert await passed(asking, await pod(server, "c", 50, namespace="B")) == ["m40-wx"]
        free = await pod(server, "d", 800, namespace="free")
        assert await passed(asking, free) == list(NODES), "no entry: no limit"


@pytest.mark.virtual_time
@pytest.mark.parametrize("call", ["filter", "predicates"])
async def test_no_node_passes_for_an_amount_that_no_card_can_give(
    server: FakeServer, tmp_path: Path, call: str
) -> None:
    async with asked(server, tmp_path) as asking:
        odd = await pod(server, "odd", 250, namespace="free")
        found = await asking.ask(call, {"Pod": odd, "NodeNames": list(NODES)})
        assert (found["NodeNames"], set(found["FailedNodes"])) == ([], set())
        [why] = set(found["FailedAndUnresolvableNodes"].values())
        assert "tencent.com/vcuda-core is 250" in why
        assert "200 or 300" in why


@pytest.mark.virtual_time
async def test_the_second_of_two_pods_that_ask_for_the_last_card_is_refused(
    server: FakeServer, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        await put_quota(server, {"default": {"quota": {"M40": 1}}})
        await asyncio.sleep(1)
        one, two = await pod(server, "one", 100), await pod(server, "two", 100)
        assert await passed(asking, one) == ["m40-public", "m40-wx"]
        found = await asking.ask("predicates", {"Pod": two, "Nodes": node_list(*NODES)})
        assert found["Nodes"] == {"items": []}
        assert found["FailedNodes"] == {
            **dict.fromkeys(
                ("m40-public", "m40-wx"),
                f"{EXCEEDS}: its namespace has 1 of 1 cards of M40, and the pod asks for 1",
            ),
            **dict.fromkeys(
                ("p100-public", "plain"), f"{EXCEEDS}: its namespace may use cards of M40"
            ),
        }
        assert await passed(asking, one) == ["m40-public", "m40-wx"], "its own again"
        await asyncio.sleep(6)
        assert await passed(asking, two) == ["m40-public", "m40-wx"], "the first was not bound"


@pytest.mark.virtual_time
async def test_one_node_comes_out_where_one_is_asked_for_and_names_for_names(
    server: FakeServer, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        one = await pod(server, "one", 100)
        assert await passed(asking, one, "predicates?nodes=one") == ["m40-public"]
        found = await asking.ask("predicates", {"Pod": one, "NodeNames": list(NODES)})
        assert found["NodeNames"] == ["m40-public", "p100-public"]
        assert found["Nodes"] is None
        assert await passed(asking, one, "predicates?nodes=one") == ["m40-public"]
        found = await asking.ask("predicates?nodes=two", {"Pod": one, "NodeNames": list(NODES)})
        assert found["Error"] == (
            "nodes is 'two' (at the query); write filterVerb: predicates, or predicates?nodes=one"
        )
        all_of_one_model = await pod(server, "two", 400)
        assert await passed(asking, all_of_one_model) == ["p100-public"], "it has none of these"


@pytest.mark.virtual_time
async def test_a_scheduler_of_v1beta1_is_answered_in_its_own_letters(
    server: FakeServer, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        one = await pod(server, "one", 100)
        found = await asking.ask("predicates", {"pod": one, "nodes": node_list(*NODES)})
        assert [each["metadata"]["name"] for each in found["nodes"]["items"]] == [
            "m40-public",
            "p100-public",
        ]
        assert found["failedNodes"]["plain"].startswith(EXCEEDS)
        assert found["error"] == ""
        ranked = await asking.ask("prioritize", {"pod": one, "nodenames": ["none", "plain"]})
        assert ranked == [{"host": "none", "score": 0}, {"host": "plain", "score": 10}]


@pytest.mark.virtual_time
async def test_a_pod_without_cards_passes_whatever_the_quota_is(
    server: FakeServer, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        await put_quota(server, {"default": {"quota": {}}})
        await asyncio.sleep(1)
        plain = {"metadata": {"name": "x", "namespace": "default", "uid": "u"}, "spec": {}}
        assert await passed(asking, plain) == list(NODES)


@pytest.mark.virtual_time
async def test_a_node_whose_labels_are_no_texts_has_none(
    server: FakeServer, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        odd = {"items": [{"metadata": {"name": "m40-public", "labels": {MODEL: ["M40"]}}}]}
        one = await pod(server, "one", 100)
        found = await asking.ask("predicates", {"Pod": one, "Nodes": odd})
        why = f"{EXCEEDS}: its namespace may use cards of M40, P100 in pool public"
        assert found["FailedNodes"] == {"m40-public": why}


async def doubt_of(data: dict[str, str], server: FakeServer, asking: Asking) -> str:
    """What the master says of a ConfigMap with this data; the quota that was still holds."""
    await asyncio.sleep(1)
    await server.put("configmaps", "gpuquota", "kube-system", data=data)
    await asyncio.sleep(1)
    assert await passed(asking, await pod(server, "a", 100)) == ["m40-public", "p100-public"]
    port = asking.master.service.extender
    assert port is not None
    return port.quota.doubt


@pytest.mark.virtual_time
async def test_a_broken_config_map_keeps_the_quota_that_was_and_is_said(
    server: FakeServer, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        doubt = await doubt_of({"gpu_quota": '{"default": 7}'}, server, asking)
        assert "gpu_quota" in doubt or "default" in doubt


@pytest.mark.virtual_time
async def test_a_config_map_without_the_key_of_quotas_opens_nothing_and_is_said(
    server: FakeServer, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        doubt = await doubt_of({"gpu-quota": "{}"}, server, asking)
        assert "data.gpu_quota" in doubt


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"Pod": []}',
        b'{"Pod": {}, "NodeNames": "n1"}',
        b'{"Pod": {}, "NodeNames": [1]}',
        b'{"Pod": {}, "Nodes": {"items": {}}}',
    ],
)
@pytest.mark.parametrize("call", ["filter", "predicates"])
async def test_a_body_that_is_no_question_is_answered_with_the_reason(
    body: bytes, call: str, server: FakeServer, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        found = await asking.ask(call, body)
        assert found["Error"]
        assert not found["NodeNames"]
