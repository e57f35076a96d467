"""`topo-master cleanup`: all that masters wrote goes, and nothing else, while they still run."""

import asyncio
from functools import partial
from typing import Any

import pytest

from master.cleanup.cluster import CleanedCluster
from master.cleanup.command import CleanupError, clean_up
from master.cleanup.lease import HOLD_S
from master.cleanup.removed_objects import RemovedObjects
from master.kube.errors import KubeError
from master.kube.leader_election.lease_object import LEASES
from master.kube.objects import CONFIG_MAPS, MUTATING_WEBHOOKS, NODES, PODS, collection_path
from master.kube.schedulers.hypernodes import HYPERNODES
from master.kube.schedulers.workloads import HELD
from tests.controllers.nomination.objects import WORDS
from tests.controllers.test_hypernodes import foreign
from tests.controllers.world import ClusterWorld, cluster_world, deliver
from tests.kube.api_model import ApiModel
from tests.publish.forests import VENDOR
from topo.gangs.annotation_keys import ADMISSION_GATED_BY

pytestmark = pytest.mark.virtual_time

NAMES = [f"node-{index}" for index in range(1, 9)]
NAMESPACE, WEBHOOK = "topo", "topo-master-admission"
OURS = {"metax-tech.com/managed-by": "topo-master"}
THEIRS = {"metax-tech.com/gpu.installed": "true", "metax-tech.com/dragonfly": "by-hand"}


def cluster(api: ApiModel) -> CleanedCluster:
    return CleanedCluster(client=api, namespace=NAMESPACE, domain="metax-tech.com", webhook=WEBHOOK)


def add_lease(api: ApiModel, holder: str, duration_s: int = 15) -> Any:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": duration_s, "leaseTransitions": 3}
    metadata = {"annotations": {"metax-tech.com/address": "https://10.0.0.1:9001"}}
    stored = api.add(LEASES, "topo-master", metadata=metadata, spec=spec)
    at = collection_path(LEASES, NAMESPACE)
    api.objects[at, "topo-master"] = api.objects.pop((collection_path(LEASES), "topo-master"))
    return stored


def add_config_map(api: ApiModel, name: str, labels: dict[str, str]) -> None:
    api.add(CONFIG_MAPS, name, metadata={"labels": labels, "namespace": NAMESPACE})


def names(api: ApiModel) -> set[str]:
    """All objects that are there, but nodes."""
    return {name for at, name in api.objects if at != collection_path(NODES)}


async def test_all_that_a_master_wrote_goes_and_what_others_wrote_stays():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        await world.end()
        api = world.api
        api.edit(NODES, "node-1", ("metadata", "labels", "own"), "stays")
        theirs = api.add(HYPERNODES, "theirs", **foreign("theirs", "node-x"))
        add_config_map(api, "topo-master-state-1", OURS)
        add_config_map(api, "topo-master-config", {})
        add_lease(api, "")
        removed = await clean_up(cluster(api))
        assert api.labels() == {name: {} for name in NAMES} | {"node-1": {"own": "stays"}}
        assert names(api) == {"theirs", "topo-master-config"}
        assert theirs.document["spec"]["members"]
        assert "labels and annotations of 8 nodes, 6 HyperNodes and 1 ConfigMaps" in str(removed)


async def test_a_label_of_our_keys_that_somebody_else_wrote_stays():
    api = ApiModel()
    api.add(NODES, "node-1", metadata={"labels": THEIRS})
    assert await clean_up(cluster(api)) == RemovedObjects()
    assert api.labels() == {"node-1": THEIRS}


async def test_a_second_run_finds_nothing_and_is_as_good():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        await world.end()
        assert len((await clean_up(cluster(world.api))).nodes) == 8
        before = len(world.api.writes)
        assert await clean_up(cluster(world.api)) == RemovedObjects()
        lease = [("POST", "topo-master"), ("DELETE", "topo-master")]
        assert world.api.writes[before:] == lease


async def test_parents_go_before_their_children():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        await world.end()
        before = len(world.hypernode_writes())
        await clean_up(cluster(world.api))
        gone = [
            name.partition("-")[0]
            for call, name in world.hypernode_writes()[before:]
            if call == "DELETE"
        ]
        assert gone == ["switchbox"] * 2 + ["dragonfly"] * 4 + ["topo"]


async def test_what_waits_for_a_finalizer_of_somebody_else_is_told_and_keeps_nothing_up():
    async with cluster_world(NAMES, VENDOR) as world:
        await deliver()
        await world.end()
        world.api.hold(HYPERNODES, "dragonfly-1", "example.com/somebody")
        removed = await clean_up(cluster(world.api))
        assert names(world.api) == {"dragonfly-1"}
        assert len(removed.hypernodes) == 6
        assert "HyperNode dragonfly-1 is deleted and waits for a finalizer" in str(removed)


async def test_it_takes_the_lease_and_waits_until_the_leader_has_ended():
    """A leader that sees another holder ends, at the latest when its term is over."""
    api, loop = ApiModel(), asyncio.get_running_loop()
    api.add(NODES, "node-1")
    lease = add_lease(api, "topo-master-0", duration_s=15)
    seen: list[tuple[float, str, Any]] = []

    def watch(_at: str, name: str, document: dict[str, Any] | None) -> None:
        seen.append((loop.time(), name, document))

    api.watches.append(watch)
    began_s = loop.time()
    work = asyncio.create_task(clean_up(cluster(api)))
    await asyncio.sleep(14)
    spec = lease.document["spec"]
    assert spec["holderIdentity"] == "topo-master-cleanup"
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (HOLD_S, 4)
    assert not [call for call in api.calls if call.path == collection_path(NODES)]
    await work
    assert loop.time() - began_s == pytest.approx(15, abs=1)
    assert seen[-1][1:] == ("topo-master", None)


async def test_a_leader_that_renews_between_look_and_write_is_taken_over_all_the_same():
    api = ApiModel(delay_s=0.1)
    add_lease(api, "topo-master-0")
    loop = asyncio.get_running_loop()
    # The renewal lands between the first look and the write that names its version.
    renew = partial(api.touch, collection_path(LEASES, NAMESPACE), "topo-master")
    loop.call_later(0.15, renew)
    await clean_up(cluster(api))
    assert names(api) == set()


async def test_a_master_that_writes_all_the_time_is_told_and_the_code_is_a_failure():
    async with cluster_world(NAMES, VENDOR, delay_s=0.001) as world:
        await deliver()
        with pytest.raises(CleanupError, match="a master still writes; end every topo-master"):
            await _against(world)


async def _against(world: ClusterWorld) -> None:
    """A clean-up while a leader repairs what it takes away."""
    slow = CleanedCluster(
        client=world.api,
        namespace=NAMESPACE,
        domain="metax-tech.com",
        webhook=WEBHOOK,
        rate=lambda: asyncio.sleep(0.2),
    )
    await clean_up(slow)


async def test_what_fails_for_now_is_tried_again_and_what_is_denied_is_told():
    busy = KubeError("busy", status=429, retry_after_s=5.0)
    api = ApiModel(faults=[busy, None, busy])
    api.add(NODES, "node-1")
    await clean_up(cluster(api))
    api.faults.append(KubeError("nodes is forbidden", status=403))
    with pytest.raises(CleanupError, match=r"nodes is forbidden; allow this account"):
        await clean_up(cluster(api))


async def test_it_ends_in_its_time_and_says_why_it_is_not_finished():
    api = ApiModel(faults=[KubeError("no answer")] * 1000)
    loop = asyncio.get_running_loop()
    with pytest.raises(CleanupError, match="not all is taken away after 280 s: no answer"):
        await clean_up(cluster(api))
    assert loop.time() == pytest.approx(280, abs=1)


async def test_a_cluster_without_volcano_is_cleaned():
    api = ApiModel(served=frozenset({"nodes", "configmaps"}))
    assert await clean_up(cluster(api)) == RemovedObjects()


async def test_nodes_are_looked_at_in_pages():
    api = ApiModel()
    for index in range(600):
        api.add(NODES, f"node-{index}")
    await clean_up(cluster(api))
    asked = [call.query for call in api.calls if call.path == collection_path(NODES)]
    assert [int(query["limit"]) for query in asked] == [250, 250, 250]
    assert [bool(query.get("continue")) for query in asked] == [False, True, True]


def add_pod(
    api: ApiModel,
    name: str,
    *gates: str,
    selector: str = "",
    node: str = "",
    phase: str = "Pending",
) -> Any:
    spec = {
        "schedulingGates": [{"name": each} for each in gates],
        "nodeSelector": {selector: "hold-1"} if selector else {},
        **({"nodeName": node} if node else {}),
    }
    metadata, status = {"namespace": "jobs"}, {"phase": phase}
    return api.add(PODS, name, metadata=metadata, spec=spec, status=status)


async def test_no_gate_of_ours_outlives_us_and_those_of_others_stay():
    api = ApiModel()
    pod = add_pod(api, "worker-0", WORDS.gate, "kueue.x-k8s.io/admission")
    other = add_pod(api, "worker-1", "kueue.x-k8s.io/admission")
    removed = await clean_up(cluster(api))
    theirs = [{"name": "kueue.x-k8s.io/admission"}]
    assert pod.document["spec"]["schedulingGates"] == theirs
    assert "taken away" in pod.document["metadata"]["annotations"][WORDS.placement]
    assert other.document["spec"]["schedulingGates"] == theirs
    assert "annotations" not in other.document["metadata"]
    assert "the gates of 1 pods are open" in str(removed)


async def test_a_webhook_that_still_answers_gates_nothing_after_the_gates_were_opened():
    """Followers answer it until helm ends them, and what they gate then nobody would open."""
    api = ApiModel()
    add_pod(api, "worker-0", WORDS.gate)
    api.add(MUTATING_WEBHOOKS, WEBHOOK)
    late: list[Any] = []

    def gate_another(at: str, _name: str, document: dict[str, Any] | None) -> None:
        """Sent to the webhook just before an API server heard that there is none."""
        if document is None and at == collection_path(MUTATING_WEBHOOKS):
            create = partial(add_pod, api, "worker-1", WORDS.gate)
            asyncio.get_running_loop().call_later(1.0, lambda: late.append(create()))

    api.watches.append(gate_another)
    removed = await clean_up(cluster(api))
    assert not late[0].document["spec"]["schedulingGates"]
    assert WEBHOOK not in names(api)
    assert "the gates of 2 pods are open" in str(removed)


async def test_labels_that_pods_select_go_once_these_are_bound_however_late_that_is():
    api = ApiModel()
    label = WORDS.node_label_prefix + "waits"
    api.add(NODES, "node-1", by="topo-master/gangs", metadata={"labels": {label: "hold-1"}})
    add_pod(api, "worker-0", selector=label)
    bind = partial(api.remove, PODS, "worker-0", "jobs")  # from the list of those that are not
    asyncio.get_running_loop().call_later(7.0, bind)
    removed = await clean_up(cluster(api))
    assert api.labels() == {"node-1": {}}
    assert "run again" not in str(removed)


async def test_labels_that_pods_select_which_are_to_be_bound_yet_stay_and_others_go():
    api = ApiModel()
    for name, gang in (("node-1", "waits"), ("node-2", "runs")):
        labels = {WORDS.node_label_prefix + gang: "hold-1"}
        api.add(NODES, name, by="topo-master/gangs", metadata={"labels": labels})
    add_pod(api, "worker-0", selector=WORDS.node_label_prefix + "waits")
    removed = await clean_up(cluster(api))
    assert api.labels() == {"node-1": {WORDS.node_label_prefix + "waits": "hold-1"}, "node-2": {}}
    assert "1 nodes keep the label of a gang" in str(removed)


async def test_a_label_stays_on_the_node_of_a_pod_that_selects_it_until_the_pod_ends():
    """A kubelet that restarts fails its pods whose node lacks what they select."""
    api, label = ApiModel(), WORDS.node_label_prefix + "runs"
    for name in ("node-1", "node-2", "node-3"):
        labels = {label: "hold-1", "zone": "a"}
        api.add(NODES, name, by="topo-master/gangs", metadata={"labels": labels})
    add_pod(api, "worker-0", selector=label, node="node-1", phase="Running")
    add_pod(api, "worker-1", selector=label, node="node-1", phase="Running")
    add_pod(api, "worker-2", selector=label, node="node-2")  # bound, and not started yet
    removed = await clean_up(cluster(api))
    kept = {label: "hold-1", "zone": "a"}
    assert api.labels() == {"node-1": kept, "node-2": kept, "node-3": {"zone": "a"}}
    assert "2 nodes keep the label of a gang for 3 pods of theirs" in str(removed)
    (asked,) = {call.query["fieldSelector"] for call in api.calls if call.path == "/api/v1/pods"}
    assert asked == "status.phase!=Succeeded,status.phase!=Failed"
    for name in ("worker-0", "worker-1", "worker-2"):
        api.remove(PODS, name, "jobs")
    removed = await clean_up(cluster(api))
    assert api.labels() == {name: {"zone": "a"} for name in ("node-1", "node-2", "node-3")}
    assert "keep the label" not in str(removed)


async def test_a_pod_that_is_bound_during_the_clean_up_keeps_the_label_of_its_node_alone():
    api, label = ApiModel(), WORDS.node_label_prefix + "waits"
    for name in ("node-1", "node-2"):
        api.add(NODES, name, by="topo-master/gangs", metadata={"labels": {label: "hold-1"}})
    add_pod(api, "worker-0", selector=label)

    def bind() -> None:
        api.remove(PODS, "worker-0", "jobs")
        add_pod(api, "worker-0", selector=label, node="node-1")

    asyncio.get_running_loop().call_later(7.0, bind)
    removed = await clean_up(cluster(api))
    assert api.labels() == {"node-1": {label: "hold-1"}, "node-2": {}}
    assert "1 nodes keep the label of a gang for 1 pods of theirs" in str(removed)


async def test_of_two_labels_of_gangs_on_a_node_the_one_that_pods_select_alone_stays():
    api = ApiModel()
    waits, runs = WORDS.node_label_prefix + "waits", WORDS.node_label_prefix + "runs"
    labels = {waits: "hold-1", runs: "hold-2", "zone": "a"}
    api.add(NODES, "node-1", metadata={"labels": labels})  # merged: no manager applied them
    add_pod(api, "worker-0", selector=waits)
    await clean_up(cluster(api))
    assert api.labels() == {"node-1": {waits: "hold-1", "zone": "a"}}


async def test_a_clean_up_that_may_not_know_pods_does_the_rest():
    api = ApiModel()
    api.add(NODES, "node-1", by="topo-master/labels", metadata={"labels": {"a": "b"}})
    refused = KubeError("pods are forbidden", status=403)
    api.faults = [None, None, refused, refused]  # neither the webhook nor pods
    await clean_up(cluster(api))
    assert api.labels() == {"node-1": {}}


async def test_a_job_that_is_held_before_its_quota_is_let_go_and_others_hold_it_on():
    api = ApiModel(served=frozenset({"nodes", "configmaps", "jobs"}))
    ours = "metax-tech.com/whole-groups"
    for name, names_of in (("alone", ours), ("beside", f"example.com/a,{ours}"), ("other", "a/b")):
        held = {"namespace": "jobs", "annotations": {ADMISSION_GATED_BY: names_of}}
        api.add(HELD[0], name, metadata=held)
    removed = await clean_up(cluster(api))
    assert "and 2 jobs let go to Kueue" in str(removed)
    found = {
        name: each.document["metadata"]["annotations"][ADMISSION_GATED_BY]
        for (_, name), each in api.objects.items()
        if each.document["metadata"].get("namespace") == "jobs"
    }
    assert found == {"alone": "", "beside": "example.com/a", "other": "a/b"}
