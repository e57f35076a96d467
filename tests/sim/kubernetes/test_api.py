"""The simulated API server keeps the promises of the real one, as far as the product uses them."""

from typing import Any

import pytest

from tests.sim.kubernetes.calls import GATE, NODES, PODS, api, call, node, pod, refusal
from topo.sim.kubernetes.apiserver.api import Api
from topo.sim.kubernetes.apiserver.merging import APPLY, MERGE, STRATEGIC
from topo.sim.kubernetes.apiserver.statuses import RefusedError


async def test_an_object_gets_a_uid_and_a_version_and_its_name_is_taken() -> None:
    server = api()
    made = await call(server, "POST", NODES, node("a"))
    assert made["metadata"]["uid"]
    assert (await call(server, "GET", f"{NODES}/a"))["metadata"] == made["metadata"]
    assert (await refusal(server, "POST", NODES, node("a"))).reason == "AlreadyExists"
    named = await call(server, "POST", PODS, {**pod("x"), "metadata": {"generateName": "x-"}})
    assert named["metadata"]["name"].startswith("x-")
    assert named["metadata"]["namespace"] == "jobs"


async def test_a_write_that_changes_nothing_raises_no_version() -> None:
    server = api()
    await call(server, "POST", NODES, node("a", zone="1"))
    before = server.store.version
    patch = {"metadata": {"labels": {"zone": "1"}}}
    await call(server, "PATCH", f"{NODES}/a", patch, as_=MERGE)
    assert server.store.version == before
    await call(server, "PATCH", f"{NODES}/a", {"metadata": {"labels": {"zone": "2"}}}, as_=MERGE)
    assert server.store.version == before + 1


@pytest.mark.parametrize(
    ("method", "content"), [("PUT", ""), ("PATCH", MERGE), ("PATCH", STRATEGIC)]
)
async def test_a_write_in_another_version_is_a_conflict(method: str, content: str) -> None:
    server = api()
    made = await call(server, "POST", NODES, node("a"))
    body = {"metadata": {"name": "a", "resourceVersion": "7"}}
    assert (await refusal(server, method, f"{NODES}/a", body, as_=content)).code == 409
    body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    await call(server, method, f"{NODES}/a", body, as_=content)


async def test_a_uid_of_another_object_is_refused_as_each_write_refuses_it() -> None:
    """A patch would change it (422), an apply and a delete have it as a precondition (409)."""
    server = api()
    await call(server, "POST", NODES, node("a"))
    body = {"metadata": {"uid": "another"}}
    assert (await refusal(server, "PATCH", f"{NODES}/a", body, as_=STRATEGIC)).code == 422
    asked = {"as_": APPLY, "fieldManager": "m"}
    assert (await refusal(server, "PATCH", f"{NODES}/a", body, **asked)).code == 409
    options = {"preconditions": {"uid": "another"}}
    assert (await refusal(server, "DELETE", f"{NODES}/a", options)).code == 409
    assert (await refusal(server, "PATCH", f"{NODES}/b", body, **asked)).code == 409
    assert (await refusal(server, "PATCH", f"{NODES}/b", body, as_=STRATEGIC)).code == 404


async def test_a_status_and_its_object_are_written_apart() -> None:
    server = api()
    await call(server, "POST", PODS, pod("p", gated=True))
    both: Any = {"status": {"nominatedNodeName": "a"}, "spec": {"schedulingGates": None}}
    await call(server, "PATCH", f"{PODS}/p/status", both, as_=MERGE)
    found = await call(server, "GET", f"{PODS}/p")
    assert found["status"]["nominatedNodeName"] == "a"
    assert found["spec"]["schedulingGates"] == [GATE]
    both["status"]["nominatedNodeName"] = "b"
    await call(server, "PATCH", f"{PODS}/p", both, as_=MERGE)
    found = await call(server, "GET", f"{PODS}/p")
    assert found["status"]["nominatedNodeName"] == "a"
    assert "schedulingGates" not in found["spec"]


async def test_an_apply_owns_its_fields_and_takes_back_what_it_names_no_more() -> None:
    server = api()
    await call(server, "POST", NODES, node("a", zone="1"), fieldManager="kubelet")

    async def apply(manager: str, force: str = "false", **labels: str) -> None:
        body = {"metadata": {"labels": labels}}
        await call(
            server, "PATCH", f"{NODES}/a", body, as_=APPLY, fieldManager=manager, force=force
        )

    await apply("one", x="1", y="1")
    await apply("two", y="1")
    await apply("one", x="1")
    assert (await _labels(server)) == {"zone": "1", "x": "1", "y": "1"}, "y is of two managers"
    await apply("two")
    assert (await _labels(server)) == {"zone": "1", "x": "1"}
    with pytest.raises(RefusedError, match='conflict with "kubelet"'):
        await apply("one", x="1", zone="2")
    await apply("one", "true", x="1", zone="2")
    assert (await _labels(server)) == {"zone": "2", "x": "1"}
    shown = (await call(server, "GET", NODES))["items"][0]["metadata"]["managedFields"]
    assert [each["manager"] for each in shown] == ["kubelet", "one"]


async def _labels(server: Api) -> dict[str, str]:
    found: dict[str, str] = (await call(server, "GET", f"{NODES}/a"))["metadata"]["labels"]
    return found


async def test_all_pages_of_a_list_show_one_version() -> None:
    server = api()
    for name in "abcde":
        await call(server, "POST", NODES, node(name))
    first = await call(server, "GET", NODES, limit="2")
    await call(server, "DELETE", f"{NODES}/d")
    names = [each["metadata"]["name"] for each in first["items"]]
    page = first
    while token := page["metadata"].get("continue"):
        page = await call(server, "GET", NODES, limit="2", **{"continue": token})
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        names += [each["metadata"]["name"] for each in page["items"]]
    assert names == list("abcde")
    again = {"continue": first["metadata"]["continue"]}
    assert len((await call(server, "GET", NODES, **again))["items"]) == 3, "its answer was lost"
    server.forget_lists()
    assert (await refusal(server, "GET", NODES, **again)).code == 410


async def test_a_list_is_of_one_namespace_or_of_all_and_of_what_is_selected() -> None:
    server = api()
    for namespace in ("jobs", "others"):
        await call(server, "POST", f"/api/v1/namespaces/{namespace}/pods", pod("p"))
    assert len((await call(server, "GET", "/api/v1/pods"))["items"]) == 2
    assert len((await call(server, "GET", PODS))["items"]) == 1
    ended = {"status": {"phase": "Succeeded"}}
    await call(server, "PATCH", f"{PODS}/p/status", ended, as_=MERGE)
    unfinished = "status.phase!=Succeeded,status.phase!=Failed"
    left = (await call(server, "GET", "/api/v1/pods", fieldSelector=unfinished))["items"]
    assert [each["metadata"]["namespace"] for each in left] == ["others"]
    assert (await refusal(server, "GET", PODS, fieldSelector="spec.x=1")).code == 400
    assert (await refusal(server, "GET", "/apis/example.com/v1/things")).code == 404


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("zone", "ab"),
        ("!zone", "c"),
        ("zone=1", "a"),
        ("zone!=1", "bc"),
        ("zone in (1, 2)", "ab"),
        ("zone notin (2),zone", "a"),
    ],
)
async def test_label_selectors_choose_as_documented(selector: str, names: str) -> None:
    server = api()
    for each in (node("a", zone="1"), node("b", zone="2"), node("c")):
        await call(server, "POST", NODES, each)
    found = (await call(server, "GET", NODES, labelSelector=selector))["items"]
    assert [each["metadata"]["name"] for each in found] == list(names)


async def test_an_object_with_finalizers_is_marked_and_goes_with_the_last_of_them() -> None:
    server = api()
    await call(server, "POST", NODES, {**node("a"), "metadata": {"name": "a", "finalizers": ["f"]}})
    answer = await call(server, "DELETE", f"{NODES}/a")
    assert answer["metadata"]["deletionTimestamp"]
    await call(server, "PATCH", f"{NODES}/a", {"metadata": {"finalizers": None}}, as_=MERGE)
    assert (await refusal(server, "GET", f"{NODES}/a")).code == 404


async def test_a_gated_pod_takes_what_narrows_it_and_nothing_else() -> None:
    server = api()
    await call(server, "POST", PODS, pod("p", gated=True, nodeSelector={"zone": "1"}))

    async def why(**spec: object) -> str:
        found = await refusal(server, "PATCH", f"{PODS}/p", {"spec": spec}, as_=MERGE)
        assert found.code == 422
        return found.message

    assert "only additions" in await why(nodeSelector={"zone": "2"})
    assert "only additions" in await why(nodeSelector={"zone": None})
    assert "may not change" in await why(schedulerName="other")
    assert "new scheduling gate" in await why(schedulingGates=[GATE, {"name": "example.com/b"}])
    await call(
        server, "PATCH", f"{PODS}/p", {"spec": {"nodeSelector": {"rack": "7"}}}, as_=STRATEGIC
    )
    opened = {"spec": {"schedulingGates": [{**GATE, "$patch": "delete"}]}}
    await call(server, "PATCH", f"{PODS}/p", opened, as_=STRATEGIC)
    found = await call(server, "GET", f"{PODS}/p")
    assert found["spec"]["nodeSelector"] == {"zone": "1", "rack": "7"}
    assert "may not change" in await why(nodeSelector={"more": "1"})


async def test_a_pod_is_bound_once_and_not_behind_a_gate() -> None:
    server = api()
    target = {"target": {"name": "a"}}
    await call(server, "POST", PODS, pod("gated", gated=True))
    assert (await refusal(server, "POST", f"{PODS}/gated/binding", target)).code == 409
    await call(server, "POST", PODS, {**pod("p"), "status": {"nominatedNodeName": "b"}})
    assert "nominatedNodeName" not in (await call(server, "GET", f"{PODS}/p"))["status"]
    await call(server, "POST", f"{PODS}/p/binding", target)
    assert (await call(server, "GET", f"{PODS}/p"))["spec"]["nodeName"] == "a"
    assert (await refusal(server, "POST", f"{PODS}/p/binding", target)).code == 409
    late = {"status": {"nominatedNodeName": "b"}}
    assert (await refusal(server, "PATCH", f"{PODS}/p/status", late, as_=MERGE)).code == 422


async def test_what_cannot_be_read_is_refused_and_changes_nothing() -> None:
    server = api()
    before = server.store.version
    assert (await refusal(server, "POST", NODES, [1])).code == 400
    assert (await refusal(server, "POST", NODES, {"metadata": {}})).code == 422
    assert (await refusal(server, "DELETE", NODES)).code == 400
    assert (await refusal(server, "POST", f"{NODES}/a/proxy", {})).code == 405
    assert (await refusal(server, "POST", PODS, {"metadata": {"name": "p"}})).code == 422
    assert server.store.version == before
