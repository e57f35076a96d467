"""What Node, Pod and ConfigMap objects say to discovery and placement, read as Kubernetes does."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from master.kube.gang_pod import ClusterPod
from master.kube.objects import ConfigMapObject, NodeObject, PodObject
from master.kube.schedulers.volcano import PodGroupObject, QueueObject
from master.sources.kubernetes import nodes
from master.sources.kubernetes.device_config import SharingModes, sharing_modes
from master.sources.kubernetes.nodes import cluster_node, listed_node
from master.sources.kubernetes.pods import PodParser
from tests.support.kubernetes import node_manifest
from topo.discovery.label_families import AUTO
from topo.gangs import note_codec
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.machine.gang import GangId, Note, Selection
from topo.gangs.terms import Way
from topo.model.cluster import ClusterNode, Taint
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.observation import ListedNode
from topo.model.quantity import MOST
from topo.placement.booking.events import Pod, PodPhase, PodSeen
from topo.placement.booking.holds import HoldId
from topo.placement.job.policy import Policy

NODE, POD = TypeAdapter(NodeObject), TypeAdapter(PodObject)
CONFIG_MAP = TypeAdapter(ConfigMapObject)
POLICY = Policy()
PARSER_KEYS = AnnotationKeys("metax-tech.com")
PARSER = PodParser(POLICY, PARSER_KEYS, Way.NOMINATION)
GPU, SGPU, USAGE = "metax-tech.com/gpu", "metax-tech.com/sgpu", "metax-tech.com/node.usage"


def node_object(**more: Any) -> NodeObject:
    """The node n1 with these fields in place of its own, wherever they are in the manifest."""
    spec = {"taints": more.get("taints", []), **more.get("spec", {})}
    status: dict[str, Any] = {k: more[k] for k in ("allocatable", "conditions") if k in more}
    manifest = node_manifest(
        "n1",
        metadata={"labels": more.get("labels", {})},
        spec=spec,
        status={**status, **more.get("status", {})},
    )
    return NODE.validate_python(manifest)


def as_cluster_node(modes: SharingModes | None = None, **more: Any) -> ClusterNode:
    """What placement is told of it."""
    return cluster_node(node_object(**more), POLICY, modes or SharingModes())


def test_a_node_tells_its_names_and_that_it_is_ready():
    found = node_object(
        spec={"providerID": "metal://rack4/7"},
        status={
            "addresses": [
                {"type": "Hostname", "address": "n1.example"},
                {"type": "InternalIP", "address": "10.0.0.7"},
                {"type": "InternalIP", "address": "fd00::7"},
                {"type": "ExternalIP", "address": "192.0.2.1"},
            ],
            "nodeInfo": {"systemUUID": "6E2A"},
        },
    )
    names = (
        ("hostname", "n1.example"),
        ("internal_ip", "10.0.0.7"),
        ("internal_ip", "fd00::7"),
        ("provider_id", "metal://rack4/7"),
        ("system_uuid", "6E2A"),
    )
    assert listed_node(found) == ListedNode(NodeName("n1"), "", names, gpus=8)


def test_a_listed_node_has_the_labels_that_are_read_and_the_first_gpus_that_it_states():
    found = node_object(
        labels={"cloud.google.com/gce-topology-block": "b", "team": "a"},
        allocatable={"cpu": "64", "nvidia.com/gpu": "4"},
    )
    listed = listed_node(found, AUTO, POLICY)
    assert (listed.labels, listed.gpus) == ((("cloud.google.com/gce-topology-block", "b"),), 4)
    assert listed_node(found).labels == ()


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ([], "heard nothing of its kubelet yet"),
        ([{"type": "DiskPressure", "status": "False"}], "heard nothing of its kubelet yet"),
        ([{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}],
         "not Ready: KubeletNotReady"),
        ([{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}],
         "any more: NodeStatusUnknown"),
        ([{"type": "Ready", "status": "False", "reason": "a\nb"}], "it is not Ready"),
    ],
)  # fmt: skip
def test_a_node_that_is_not_ready_says_why(conditions: list[dict[str, str]], words: str):
    found = node_object(conditions=conditions)
    assert listed_node(found).not_ready.endswith(words)
    assert not as_cluster_node(conditions=conditions).ready


def test_a_cordon_taints_labels_and_allocatable_gpus_are_taken_over():
    taints = [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    found = as_cluster_node(
        spec={"unschedulable": True}, taints=taints, labels={"b": "2", "a": "1"}
    )
    assert found == ClusterNode(
        name=NodeName("n1"),
        labels=(("a", "1"), ("b", "2")),
        taints=(Taint("team", "a", "NoSchedule"),),
        unschedulable=True,
        allocatable=((GPU, 8),),
    )


def test_the_labels_of_gangs_that_were_given_a_node_are_nothing_by_which_jobs_choose_it():
    given = {"gang.metax-tech.com/job-1": "hold-1", "gang.example.com/x": "1"}
    assert as_cluster_node(labels=given).labels == (("gang.example.com/x", "1"),)


@pytest.mark.parametrize(
    ("allocatable", "told", "doubted"),
    [
        ({GPU: "8", "nvidia.com/gpu": "0"}, ((GPU, 8), ("nvidia.com/gpu", 0)), 0),
        ({"cpu": "4"}, (), 0),
        ({}, None, 0),
        ({GPU: "many"}, ((GPU, 0),), 1),
    ],
)
def test_a_quantity_that_cannot_be_read_counts_as_none_and_is_told(
    allocatable: dict[str, str], told: object, doubted: int
):
    """The other nodes, and what else this one says, are taken as ever."""
    found = as_cluster_node(allocatable=allocatable, labels={"a": "1"})
    assert (found.allocatable, found.labels) == (told, (("a", "1"),))
    assert len([*nodes.doubts(node_object(allocatable=allocatable), POLICY)]) == doubted


@pytest.mark.parametrize(
    ("label", "taints", "pool", "doubted"),
    [
        ("training", [], "training", ""),
        (None, ["inference"], "inference", ""),
        ("hybrid", ["hybrid", "hybrid"], "hybrid", ""),
        (None, [], "", ""),
        ("training", ["inference"], "contradicted", "say training and inference"),
        ("lab", [], "lab", "none of training, inference, hybrid"),
    ],
)
def test_the_pool_is_what_label_and_taint_agree_on(
    label: str | None, taints: list[str], pool: str, doubted: str
):
    found: dict[str, Any] = {
        "labels": {} if label is None else {USAGE: label},
        "taints": [{"key": USAGE, "value": word, "effect": "NoSchedule"} for word in taints],
    }
    assert as_cluster_node(**found).pool == pool
    said = " ".join(nodes.doubts(node_object(**found), POLICY))
    assert (doubted in said) if doubted else not said


@pytest.mark.parametrize(
    ("allocatable", "mode", "shared"),
    [
        ({GPU: "8"}, "native", ()),
        ({GPU: "8", SGPU: "0"}, "native", ()),
        ({GPU: "0", SGPU: "32"}, "native", ((SGPU, 32),)),
        ({GPU: "8"}, "sgpu", ((SGPU, 0),)),
        ({SGPU: "32"}, "sgpu", ((SGPU, 32),)),
        ({"volcano.sh/vgpu-number": "80"}, "native", (("volcano.sh/vgpu-number", 80),)),
        ({"tencent.com/vcuda-core": "800"}, "native", (("tencent.com/vcuda-core", 800),)),
    ],
)
def test_cards_are_shared_where_shares_are_allocatable_or_the_mode_says_so(
    allocatable: dict[str, str], mode: str, shared: object
):
    modes = SharingModes(nodes={"n1": mode})
    assert as_cluster_node(modes, allocatable=allocatable).shared == shared


def config(cluster: str = "", of_nodes: str = "") -> SharingModes | Refusal:
    """What the vendor's ConfigMap with these texts states."""
    data = {"version": "v1", "cluster-config": cluster, "nodes-config": of_nodes}
    manifest = {"metadata": {"name": "metax-device-config", "namespace": "metax"}, "data": data}
    return sharing_modes(CONFIG_MAP.validate_python(manifest))


def test_the_vendors_config_map_says_which_nodes_share_their_cards():
    """As its chart renders it: a mode for all, and a list of nodes that differ."""
    found = config(
        'mode: "native"\n',
        '- nodeName: "sample-node1"\n  mode: "sgpu"\n- nodeName: 17\n  mode: "native"\n',
    )
    assert isinstance(found, SharingModes)
    assert [found.mode_of(n) for n in ("sample-node1", "17", "x")] == ["sgpu", "native", "native"]
    assert config() == SharingModes()
    everywhere = config('mode: "sgpu"', "[]")
    assert isinstance(everywhere, SharingModes)
    assert everywhere.mode_of("x") == "sgpu"


@pytest.mark.parametrize(
    ("cluster", "of_nodes", "where"),
    [
        ("mode: shared", "", "cluster-config.mode"),
        ("- native", "", "cluster-config"),
        ("mode: [", "", "cluster-config line "),
        ("", "sample-node1: sgpu", "nodes-config"),
        ("", "- mode: sgpu", "nodes-config[0]"),
        ("", "- {nodeName: a, mode: 3}", "nodes-config[0].mode"),
    ],
)
def test_a_broken_config_map_is_refused_with_the_place(cluster: str, of_nodes: str, where: str):
    found = config(cluster, of_nodes)
    assert isinstance(found, Refusal)
    assert found.where.startswith(where)


def asks(gpus: object, *, sidecar: bool = False, only_limits: bool = False) -> dict[str, Any]:
    """A container."""
    amounts = {GPU: str(gpus)}
    resources = {"limits": amounts} if only_limits else {"requests": amounts, "limits": amounts}
    return {"name": "c", "resources": resources, **({"restartPolicy": "Always"} if sidecar else {})}


def pod(
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    status: dict[str, str] | None = None,
    **more: Any,
) -> ClusterPod:
    """A pod, bound to n1 if nothing else is said."""
    metadata = {"name": "p", "namespace": "jobs", "uid": "u-1", **more.get("metadata", {})}
    spec = {"nodeName": "n1", "containers": [*containers], "initContainers": [*init]}
    found = {"metadata": metadata, "spec": {**spec, **more.get("spec", {})}, "status": status or {}}
    return PARSER.parse(POD.validate_python(found))


def gpus_of(found: ClusterPod) -> int:
    """What it takes; 0 where it takes nothing."""
    return 0 if found.booking is None else found.booking.pod.gpus


@pytest.mark.parametrize(
    ("containers", "init", "overhead", "gpus"),
    [
        ([asks(4), asks(4)], (), {}, 8),
        ([asks(2, only_limits=True)], (), {}, 2),
        ([asks(2)], (asks(6), asks(4)), {}, 6),
        ([asks(2)], (asks(1, sidecar=True),), {}, 3),
        ([asks(2)], (asks(1, sidecar=True), asks(4)), {}, 5),
        ([asks(2)], (asks(4), asks(1, sidecar=True)), {}, 4),
        ([asks(2)], (asks(4), asks(3, sidecar=True)), {}, 5),
        ([asks(1)], (asks(1, sidecar=True), asks(2), asks(1, sidecar=True), asks(5)), {}, 7),
        ([asks(2)], (), {GPU: "1"}, 3),
        ([asks("1k")], (), {}, 1000),
        ([asks("what")], (), {}, MOST),
        ([], (), {}, 0),
    ],
)
def test_a_pod_takes_what_the_scheduler_counts(
    containers: list[dict[str, Any]], init: tuple[dict[str, Any], ...], overhead: Any, gpus: int
):
    """Containers and sidecars together, or an init container beside the sidecars before it."""
    assert gpus_of(pod(*containers, init=init, spec={"overhead": overhead})) == gpus


def test_a_request_that_cannot_be_read_is_told_and_takes_all():
    (said,) = pod(asks("what", only_limits=True)).doubts
    assert said.startswith("pod jobs/p: metax-tech.com/gpu: 'what' is not a quantity")


GONE = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("spec", "status", "deleted", "phase"),
    [
        ({}, {"phase": "Running"}, False, "bound"),
        ({}, {"phase": "Pending"}, False, "bound"),
        ({}, {"phase": "Unknown"}, False, "bound"),
        ({}, {"phase": "Running"}, True, "terminating"),
        ({}, {"phase": "Succeeded"}, False, None),
        ({}, {"phase": "Failed"}, True, None),
        ({"nodeName": ""}, {"phase": "Pending"}, False, None),
        ({"nodeName": ""}, {"nominatedNodeName": "n1"}, False, "nominated"),
        ({"nodeName": "", "schedulingGates": [{"name": "g"}]}, {"nominatedNodeName": "n1"}, False,
         None),
        ({"nodeName": ""}, {"nominatedNodeName": "n1"}, True, None),
        ({}, {"phase": "Running", "nominatedNodeName": "n9"}, False, "bound"),
    ],
)  # fmt: skip
def test_a_pod_takes_its_gpus_from_its_nomination_until_it_is_finished_or_gone(
    spec: dict[str, Any],
    status: dict[str, str],
    deleted: bool,  # noqa: FBT001
    phase: str | None,
):
    metadata = {"deletionTimestamp": GONE} if deleted else {}
    seen = pod(asks(8), spec=spec, status=status, metadata=metadata).booking
    if phase is None:
        assert seen is None
    else:
        expected = Pod(uid="u-1", namespace="jobs", name="p", node=NodeName("n1"), gpus=8)
        assert seen == PodSeen(expected, PodPhase(phase))


@pytest.mark.parametrize("nominated", ["n1", "n2", ""])
@pytest.mark.parametrize(("gates", "node"), [([], "n1"), ([{"name": "g"}], None)])
def test_a_planned_pod_takes_its_gpus_where_it_is_planned_once_it_is_opened(
    nominated: str, gates: list[dict[str, str]], node: str | None
):
    note = Note(NodeName("n1"), 0, HoldId("h"), Selection("h"), 1, certified=True)
    place = note_codec.encode_note(GangId("u-1"), note)
    seen = pod(
        asks(8),
        spec={"nodeName": "", "schedulingGates": gates},
        status={"nominatedNodeName": nominated},
        metadata={"annotations": {PARSER_KEYS.placement: place}},
    ).booking
    assert (seen.pod.node if seen is not None else None) == node


def test_a_pod_of_shared_cards_takes_no_whole_gpu():
    found = pod({"resources": {"limits": {SGPU: "2", "metax-tech.com/vcore": "50"}}})
    seen = found.booking
    assert seen is not None
    assert (seen.pod.gpus, seen.pod.shared) == (0, ((SGPU, 2),))


def test_pods_that_name_no_card_need_not_be_kept():
    assert pod(asks(1)).names_cards
    assert pod(init=(asks(1),)).names_cards
    assert not pod({"resources": {"limits": {"cpu": "1"}}}).names_cards


@pytest.mark.parametrize(
    ("text", "hold"), [("hold-1a2b", "hold-1a2b"), ("", None), ("x" * 65, None), ("a\nb", None)]
)
def test_a_pod_names_the_hold_that_was_made_for_it(text: str, hold: str | None):
    annotations = {"annotations": {"metax-tech.com/hold": text}}
    seen = pod(asks(8), metadata=annotations).booking
    assert seen is not None
    assert seen.pod.hold == hold


def test_a_pod_tells_whose_it_is_and_which_nodes_it_may_have():
    in_zone = {"key": "z", "operator": "In", "values": ["1"]}
    found = POD.validate_python(
        {
            "metadata": {
                "name": "worker-0",
                "creationTimestamp": "2026-01-02T03:04:05Z",
                "ownerReferences": [
                    {
                        "apiVersion": "batch.volcano.sh/v1alpha1",
                        "kind": "Job",
                        "name": "train",
                        "uid": "job-1",
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {
                "schedulerName": "volcano",
                "priority": 100,
                "nodeSelector": {"pool": "a"},
                "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 300}],
                "affinity": {
                    "podAffinity": {},
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [in_zone]}]
                        }
                    },
                },
            },
        }
    )
    (owner,) = found.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Job", "train", "job-1", True)
    assert found.metadata.creation_timestamp == "2026-01-02T03:04:05Z"
    assert found.spec.priority == 100
    assert found.spec.node_selector == {"pool": "a"}
    assert [(each.key, each.operator) for each in found.spec.tolerations] == [("k", "Exists")]
    affinity = found.spec.affinity and found.spec.affinity.node_affinity
    assert affinity
    assert affinity.required
    (term,) = affinity.required.node_selector_terms
    assert [(each.key, each.values) for each in term.match_expressions] == [("z", ("1",))]


def test_a_pod_group_and_a_queue_tell_what_lets_a_gang_in():
    group = TypeAdapter(PodGroupObject).validate_python(
        {
            "metadata": {"name": "train-1"},
            "spec": {"minMember": 8, "queue": "default", "minResources": {"cpu": "1"}},
            "status": {"phase": "Inqueue", "conditions": []},
        }
    )
    assert (group.spec.min_member, group.spec.queue, group.status.phase) == (
        8,
        "default",
        "Inqueue",
    )
    queue = TypeAdapter(QueueObject).validate_python(
        {
            "metadata": {"name": "default"},
            "spec": {"weight": 1, "capability": {"metax-tech.com/gpu": 64}},
            "status": {"state": "Open", "allocated": None},
        }
    )
    assert queue.spec.capability == {"metax-tech.com/gpu": "64"}
    assert queue.status.allocated is None


def needs(*containers: dict[str, Any], **more: Any) -> dict[str, int]:
    """What a pod takes beside cards, in thousandths."""
    return dict(pod(*containers, **more).takes)


def asking(**requests: str) -> dict[str, Any]:
    """A container."""
    return {"name": "c", "resources": {"requests": requests}}


def test_a_pod_takes_the_sum_of_its_containers_and_one_place_and_no_cards_are_in_it():
    limited = {"name": "l", "resources": {"limits": {"hugepages-2Mi": "4Mi"}}}
    found = needs(
        asking(cpu="500m", **{GPU: "8", SGPU: "1"}), asking(cpu="2", memory="1Ki"), limited
    )
    assert found == {
        "cpu": 2_500,
        "memory": 1_024_000,
        "hugepages-2Mi": 4 * 1024**2 * 1000,
        "pods": 1_000,
    }


def test_init_containers_run_before_the_others_and_sidecars_beside_them():
    sidecar = asking(cpu="1") | {"restartPolicy": "Always"}
    assert needs(asking(cpu="2"), init=(asking(cpu="5"), sidecar))["cpu"] == 5_000
    assert needs(asking(cpu="2"), init=(sidecar, asking(cpu="5")))["cpu"] == 6_000
    assert needs(asking(cpu="2"), spec={"overhead": {"cpu": "100m"}})["cpu"] == 2_100


def test_what_a_pod_asks_for_as_a_whole_takes_the_place_of_its_sums():
    whole_pod = {"resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "1"}}
    found = needs(asking(cpu="8", memory="1"), spec=whole_pod)
    assert (found["cpu"], found["memory"]) == (4_000, 1_000)


def test_a_pod_takes_of_the_node_where_it_is_bound_until_it_has_ended():
    assert pod(asking(cpu="1")).takes_of == "n1"
    assert pod(asking(cpu="1"), status={"phase": "Succeeded"}).takes_of is None
    assert pod(asking(cpu="1"), spec={"nodeName": ""}).takes_of is None


def test_a_node_has_what_it_states_beside_cards():
    found = node_object(allocatable={"cpu": "63500m", "pods": "110", "memory": "x", GPU: "8"})
    assert nodes.other_amounts(found, POLICY) == {"cpu": 63_500, "pods": 110_000}


def test_a_port_of_the_node_is_taken_by_containers_and_sidecars():
    ports = {"ports": [{"containerPort": 80, "hostPort": 7777}, {"containerPort": 81}]}
    sidecar = {"name": "s", "restartPolicy": "Always"}
    udp = {"ports": [{"containerPort": 53, "hostPort": 53, "protocol": "UDP"}]}
    found = needs(asking() | ports, init=(sidecar | udp, {"name": "i"} | ports))
    assert found == {"host port 53/UDP": 1_000, "host port 7777/TCP": 1_000, "pods": 1_000}
