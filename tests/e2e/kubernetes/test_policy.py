"""The admission policy on a real API server: what the account of a master can change, by field.

The fields are those that the server's own OpenAPI document lists, so a field of a later Kubernetes
is tried, too.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from master.controllers.names import BY_DEFAULT
from tests.e2e.controlplane.client import MERGE, Api, ApiError
from tests.e2e.controlplane.cluster import Cluster, account_access
from tests.e2e.kubernetes.node_features import (
    collection,
    node_feature,
    node_features_served,
)
from tests.helm.chart import CHART, ON, built_helm, run
from tests.support.waiting import eventually

ADMIN, MASTER, CLEANUP = "admin", "topo-master", "topo-master-cleanup"
NODE = "/api/v1/nodes/node-sample1"
GATE, THEIRS = {"name": "metax-tech.com/placement"}, {"name": "example.com/quota"}
PLACED = "metax-tech.com/Placed"
FORMER, RACK = "example.com/former", "example.com/rack"
CONTROLLERS = (*BY_DEFAULT, "nomination", "gang-objects", "node-features")
_FORBIDDEN = 403
_WRITTEN_BY_THE_SERVER = ("managedFields", "resourceVersion", "generation")
_STRATEGIC = "application/strategic-merge-patch+json"
_SIMPLE = {"integer": 1, "number": 1, "boolean": True}
_CORE = "io.k8s.api.core.v1."
_METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_GONE = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"}
KNOWN: Mapping[str, Any] = {
    "ownerReferences": [_GONE],
    "finalizers": ["example.com/wait"],
    "labels": {"node-role.kubernetes.io/control-plane": ""},
    "annotations": {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"},
    "activeDeadlineSeconds": 1,
    "tolerations": [{"operator": "Exists"}],
    "schedulingGates": [GATE],
    "nodeSelector": {"kubernetes.io/hostname": "node-sample2"},
    "phase": "Failed",
    "podIP": "10.9.9.9",
    "podIPs": [{"ip": "10.9.9.9"}],
    "hostIP": "10.9.9.9",
    "hostIPs": [{"ip": "10.9.9.9"}],
    "qosClass": "Guaranteed",
    "taints": [{"key": "a", "effect": "NoExecute"}],
    "conditions": [{"type": "Ready", "status": "True"}],
    "observedGeneration": 7,
}
"""Values that an attacker would choose and the server takes; of other fields any of their type."""
NOMINATION = "nominatedNodeName"
"""Masters write it on each pod that asks for groups."""


class Part(NamedTuple):
    """The fields of one part of an object, and the path at which they are changed."""

    path: str
    part: str
    schema: str


class Accounts(NamedTuple):
    """The clients of an administrator and of the chart's accounts, and the folder of pods."""

    admin: Api
    of: Mapping[str, Api]
    pods: str


@pytest.fixture
async def accounts(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> AsyncIterator[Accounts]:
    """A gated pod, and pods of others; then the chart is installed, its policies are in force.

    No master runs that could review pods as they are made.
    """
    pods = f"/api/v1/namespaces/{namespace}/pods"
    asked = {"metax-tech.com/gpu-group-size": "8", "metax-tech.com/gang-pods": "2"}
    in_its_rack = {**asked, "metax-tech.com/gang-own-domains": f"1x1@zone,1x1@{RACK}"}
    for name, spec, annotations in (
        ("gated", {"schedulingGates": [GATE, THEIRS]}, in_its_rack),
        ("running", {"nodeName": "node-sample1"}, asked),
        ("of-others", {"schedulingGates": [THEIRS]}, {}),
    ):
        containers = [{"name": "main", "image": "alpine:3.19"}]
        metadata = {"name": name, "annotations": annotations, "labels": {"app": "a"}}
        await api.create(pods, {"metadata": metadata, "spec": {**spec, "containers": containers}})
    kubeconfig = ("--kubeconfig", str(cluster.files.kubeconfig))
    install = partial(run, built_helm(), "install", "topo", str(CHART), "-n", namespace)
    master_is = "topoDiscovery.master"
    former = ("--set", f"{master_is}.formerKeys={{{FORMER}}}")
    writes = ("--set", f"{master_is}.controllers={{{','.join(CONTROLLERS)}}}")
    flags = (*ON, *former, *writes, *kubeconfig)
    done = await asyncio.to_thread(partial(install, *flags, home=tmp_path))
    assert done.returncode == 0, done.stderr

    async def is_running() -> bool:
        found = await api.get(f"{pods}/running")
        return bool(found["status"].get("phase") == "Running")

    await eventually(is_running)
    async with (
        cluster.api(await account_access(cluster, namespace, MASTER)) as master,
        cluster.api(await account_access(cluster, namespace, CLEANUP)) as cleanup,
    ):
        found = Accounts(api, {MASTER: master, CLEANUP: cleanup}, pods)
        for path, patch in (
            (NODE, {"spec": {"unschedulable": True}}),
            (f"{pods}/gated", {"metadata": {"labels": {"a": "b"}}}),
        ):
            await eventually(partial(_is_refused, master, path, patch))
        yield found


@pytest.mark.parametrize("account", [MASTER, CLEANUP])
async def test_an_account_of_ours_changes_no_field_that_is_not_ours(
    accounts: Accounts, account: str
) -> None:
    """What an administrator could change, the account is refused, by the policy or by its role."""
    schemas = (await accounts.admin.get("/openapi/v3/api/v1"))["components"]["schemas"]
    open_to_admins = set[tuple[str, str]]()
    for part in _parts(accounts.pods):
        present = (await accounts.admin.get(part.path.removesuffix("/status")))[part.part]
        fields = {
            field: KNOWN.get(field, _example(schema, schemas))
            for field, schema in schemas[part.schema]["properties"].items()
            if field != NOMINATION or "of-others" in part.path
        }
        for field, value in fields.items():
            longer = [*present.get(field, ()), *value] if isinstance(value, list) else value
            for patch in ({part.part: {field: each}} for each in (value, longer, None)):
                if await _changes(accounts, ADMIN, part.path, patch):
                    open_to_admins.add((part.part, field))
                    assert await _is_refused(accounts.of[account], part.path, patch), (part, patch)
                else:
                    changed = await _changes(accounts, account, part.path, patch)
                    assert not changed, (part, patch)
    assert open_to_admins >= {
        *(("metadata", field) for field in ("labels", "annotations", "ownerReferences")),
        *(("spec", field) for field in ("activeDeadlineSeconds", "tolerations", "nodeSelector")),
        *(("spec", field) for field in ("taints", "unschedulable", "schedulingGates")),
        *(("status", field) for field in ("phase", "podIP", "conditions", "capacity", "addresses")),
        ("metadata", "finalizers"),
    }


_FOREIGN = [
    "node-role.kubernetes.io/control-plane",
    "kubernetes.io/hostname",
    "metax-tech.com/gpu.installed",
    "metax-tech.com/node.usage",
    "metax-tech.com/dragonfly-1",
    "gang.metax-tech.com.example.com/a",
    "example.com/pair",
]


async def test_a_master_neither_sets_nor_removes_a_key_of_another_name(accounts: Accounts) -> None:
    master = accounts.of[MASTER]
    for key in _FOREIGN:
        for path in (NODE, f"{accounts.pods}/gated", f"{accounts.pods}/running/status"):
            for kind in ("labels", "annotations"):
                assert await _is_refused(master, path, {"metadata": {kind: {key: "a"}}}), key
        await accounts.admin.merge(NODE, {"metadata": {"annotations": {key: "theirs"}}})
        try:
            gone = {"metadata": {"annotations": {key: None}}}
            assert await _is_refused(master, NODE, gone), key
        finally:
            await accounts.admin.merge(NODE, {"metadata": {"annotations": {key: None}}})


async def test_a_key_of_an_earlier_release_may_be_removed_and_not_set(accounts: Accounts) -> None:
    master = accounts.of[MASTER]
    for kind in ("labels", "annotations"):
        await accounts.admin.merge(NODE, {"metadata": {kind: {FORMER: "old"}}})
        assert await _is_refused(master, NODE, {"metadata": {kind: {FORMER: "new"}}})
        await master.merge(NODE, {"metadata": {kind: {FORMER: None}}})


async def test_what_masters_write_passes(accounts: Accounts) -> None:
    master, pods = accounts.of[MASTER], accounts.pods
    labels = {"metax-tech.com/dragonfly": "d", "metax-tech.com/scale-out-leaf": "l"}
    gang = {"gang.metax-tech.com/0b5a": "x"}
    scores = {f"metax-tech.com/gpu.topology.{each}": "{}" for each in ("scores", "losses")}
    for keys in (labels | gang, dict.fromkeys(labels | gang)):
        await master.merge(NODE, {"metadata": {"labels": keys}})
    await master.merge(NODE, {"metadata": {"annotations": scores}})
    await accounts.of[CLEANUP].merge(NODE, {"metadata": {"annotations": dict.fromkeys(scores)}})
    note = {
        "metadata": {
            "annotations": {
                "metax-tech.com/placement": "p",
                "metax-tech.com/hold": "h",
                "controller.kubernetes.io/pod-deletion-cost": "-1",
            }
        }
    }
    condition = {"type": PLACED, "status": "False", "reason": "GangWaits", "message": "m"}
    nomination = {
        **note,
        "status": {"nominatedNodeName": "node-sample1", "conditions": [condition]},
    }
    await master.call("PATCH", f"{pods}/gated/status", nomination, content_type=_STRATEGIC)
    gone = {"$patch": "delete", **GATE}
    opened = {"schedulingGates": [gone], "nodeSelector": {**gang, RACK: "r1"}}
    path, patch = f"{pods}/gated", {"spec": opened}
    after = await master.call("PATCH", path, patch, content_type=_STRATEGIC)
    assert after["spec"]["schedulingGates"] == [THEIRS]
    assert after["spec"]["nodeSelector"] == {**gang, RACK: "r1"}
    assert PLACED in [each["type"] for each in after["status"]["conditions"]]


_OF_OTHERS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("gated", {"spec": {"schedulingGates": [GATE]}}),
    ("gated", {"spec": {"schedulingGates": []}}),
    ("gated", {"spec": {"nodeSelector": {RACK.rpartition("/")[2]: "r1"}}}),
    ("gated", {"spec": {"nodeSelector": {RACK[:-1]: "r1"}}}),
    ("of-others", {"metadata": {"annotations": {"metax-tech.com/placement": "p"}}}),
    ("of-others", {"spec": {"nodeSelector": {"gang.metax-tech.com/a": "b"}}}),
    ("of-others/status", {"status": {"nominatedNodeName": "node-sample1"}}),
    ("running/status", {"status": {"conditions": []}}),
)


async def test_gates_of_others_and_pods_that_ask_for_nothing_stay(accounts: Accounts) -> None:
    for path, patch in _OF_OTHERS:
        assert await _changes(accounts, ADMIN, f"{accounts.pods}/{path}", patch), (path, patch)
        assert await _is_refused(accounts.of[MASTER], f"{accounts.pods}/{path}", patch), (
            path,
            patch,
        )


async def test_a_master_changes_no_hypernode_event_lease_or_nodefeature_of_others(
    accounts: Accounts,
) -> None:
    master, namespace = accounts.of[MASTER], accounts.pods.rpartition("/")[0]
    nodes = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
    of_space = namespace.replace("/api/v1", "")
    events = f"/apis/events.k8s.io/v1{of_space}/events"
    leases = f"/apis/coordination.k8s.io/v1{of_space}/leases"
    space = of_space.rpartition("/")[2]
    bodies = {
        nodes: _hypernode("theirs", {}),
        events: _event("theirs", space, "kubelet"),
        leases: {"metadata": {"name": "theirs"}},
    }
    for path, body in bodies.items():
        with pytest.raises(ApiError) as refused:
            await master.create(path, body)
        assert refused.value.is_of_policy, (path, refused.value)
        await accounts.admin.create(path, body)
    assert await _is_refused(master, f"{nodes}/theirs", _hypernode("theirs", OURS))
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}
    assert await _is_refused(master, f"{events}/theirs", series)
    with pytest.raises(ApiError) as kept:
        await master.call("DELETE", f"{nodes}/theirs")
    assert kept.value.is_of_policy, kept.value
    try:
        await master.create(nodes, _hypernode("ours", OURS))
        await master.call("DELETE", f"{nodes}/ours")
        await master.create(events, _event("ours", space, MASTER))
        await master.create(leases, {"metadata": {"name": MASTER}})
    finally:
        await accounts.admin.delete(f"{nodes}/theirs")
    await _says_groups_alone(accounts)


OURS = {"metax-tech.com/managed-by": MASTER}


_BEYOND_GROUPS: tuple[Mapping[str, Any], ...] = (
    {"spec": {"labels": {"example.com/pair": "a"}}},
    {"spec": {"features": {"attributes": {"cpu.model": {"elements": {"a": "b"}}}}}},
    {"spec": {"features": {"flags": {"cpu.cpuid": {"elements": {"AVX": {}}}}}}},
    {"spec": {"features": {"instances": {"pci.device": {"elements": []}}}}},
)


async def _says_groups_alone(accounts: Accounts) -> None:
    """What stands in a NodeFeature NFD's master writes on the node."""
    master, cleanup = accounts.of[MASTER], accounts.of[CLEANUP]
    at = collection(accounts.pods.split("/")[4])
    async with node_features_served(accounts.admin):
        labels = {"metax-tech.com/dragonfly": "d", "metax-tech.com/scale-out-leaf": "l"}
        groups = {"topo.groups": {"elements": {"dragonfly": "d", "scale-out-leaf": "l"}}}
        features = {"flags": {}, "attributes": groups, "instances": {}}
        spec = {"labels": labels, "features": features}
        await master.create(at, node_feature("ours", OURS, spec))
        await accounts.admin.create(at, node_feature("theirs", {}, spec))
        for patch in (*_BEYOND_GROUPS, {"metadata": {"labels": dict.fromkeys(OURS)}}):
            assert await _changes(accounts, ADMIN, f"{at}/ours", patch), patch
            assert await _is_refused(master, f"{at}/ours", patch), patch
        assert await _is_refused(master, f"{at}/theirs", {"metadata": {"labels": OURS}})
        for account in (master, cleanup):
            with pytest.raises(ApiError) as kept:
                await account.call("DELETE", f"{at}/theirs")
            assert kept.value.is_of_policy, kept.value
        await cleanup.call("DELETE", f"{at}/ours")


def _hypernode(name: str, labels: Mapping[str, str]) -> Mapping[str, Any]:
    member = {"type": "Node", "selector": {"exactMatch": {"name": "node-sample1"}}}
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name, "labels": labels},
        "spec": {"tier": 9, "members": [member]},
    }


def _event(name: str, namespace: str, controller: str) -> Mapping[str, Any]:
    about = {"apiVersion": "v1", "kind": "Pod", "name": "gated", "namespace": namespace}
    return {
        "metadata": {"name": name},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": controller,
        "reportingInstance": controller,
        "action": "Place",
        "reason": "Placed",
        "type": "Normal",
        "regarding": about,
    }


def _parts(pods: str) -> Iterator[Part]:
    for path, kind in (
        (NODE, "Node"),
        (f"{pods}/gated", "Pod"),
        (f"{pods}/running", "Pod"),
        (f"{pods}/of-others", "Pod"),
    ):
        yield Part(path, "metadata", _METADATA)
        yield Part(path, "spec", f"{_CORE}{kind}Spec")
        yield Part(f"{path}/status", "metadata", _METADATA)
        yield Part(f"{path}/status", "status", f"{_CORE}{kind}Status")


def _example(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """A small value of a schema: required fields alone, or the first where none is."""
    while refers := (schema.get("allOf") or [schema])[0].get("$ref"):
        schema = schemas[refers.rpartition("/")[2]]
    found: Any = _SIMPLE.get(schema.get("type", ""), "1")
    if schema.get("format") == "date-time":
        found = "2026-01-01T00:00:00Z"
    elif schema.get("type") == "array":
        found = [_example(schema["items"], schemas)]
    elif fields := schema.get("properties"):
        names = schema.get("required") or list(fields)[:1]
        found = {name: _example(fields[name], schemas) for name in names}
    elif schema.get("type") == "object":
        found = {"cpu": _example(schema.get("additionalProperties", {}), schemas)}
    return found


async def _changes(accounts: Accounts, by: str, path: str, patch: Mapping[str, Any]) -> bool:
    """Whether the server would change the object so for this account: nothing is stored."""
    api = accounts.of.get(by, accounts.admin)
    present = await accounts.admin.get(path.removesuffix("/status"))
    try:
        found = await api.call("PATCH", path, patch, content_type=MERGE, dryRun="All")
    except ApiError:
        return False
    return _content(found) != _content(present)


def _content(document: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = document["metadata"].items()
    kept = {name: value for name, value in metadata if name not in _WRITTEN_BY_THE_SERVER}
    return {**document, "metadata": kept}


async def _is_refused(api: Api, path: str, patch: Mapping[str, Any]) -> bool:
    """Whether the role denies it, or the policy in its own words, for no other reason."""
    try:
        await api.call("PATCH", path, patch, content_type=MERGE, dryRun="All")
    except ApiError as error:
        return error.is_of_policy or error.status == _FORBIDDEN
    return False
