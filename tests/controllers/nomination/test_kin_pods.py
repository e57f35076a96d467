"""Domains of nodes that pods of parts of jobs keep each other out of: who is where, who plans."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from master.controllers.nomination.kin_pods import KinPods
from master.kube.gang_pod import ClusterPod
from master.kube.reflector import Changed, Listener, Removed
from tests.controllers.nomination.objects import GPU, parse
from tests.controllers.nomination.test_held_room import NAMES, answers
from topo.gangs.machine.events import Planned
from topo.gangs.machine.gang import Binding, Gang, GangId, Member, PodUid
from topo.gangs.machine.instructions import Occupied, Place
from topo.model.ids import NodeName
from topo.placement.job.request import Kin, OwnDomains, Request

KEY, PRIORITY = "jobset.sigs.k8s.io/job-key", "jobset.sigs.k8s.io/priority"
KIN = Kin(KEY, "0")
RACK = "rack"


def term(own: str) -> dict[str, Any]:
    """The anti-affinity that JobSet 0.12 writes on the first pod of a Job."""
    expressions = [
        {"key": KEY, "operator": "Exists"},
        {"key": KEY, "operator": "NotIn", "values": [own]},
        {"key": PRIORITY, "operator": "In", "values": ["0"]},
    ]
    selector = {"matchExpressions": expressions}
    return {"topologyKey": RACK, "labelSelector": selector, "namespaceSelector": {}}


def pod_of(job: str, node: str = "", *, leads: bool = False, gpus: int = 8) -> ClusterPod:
    """A pod of a Job of a JobSet; the first one has the anti-affinity."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term(job)]}
    limits = {GPU: str(gpus)} if gpus else {}
    spec = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    return parse(
        {
            "metadata": {
                "name": f"{job}-{'0' if leads else '1'}",
                "namespace": "jobs",
                "uid": f"uid-{job}",
                "labels": {KEY: job, PRIORITY: "0"},
            },
            "spec": {
                **spec,
                **({"nodeName": node} if node else {}),
                **({"affinity": {"podAntiAffinity": required}} if leads else {}),
            },
            "status": {"phase": "Pending"},
        }
    )


def test_bound_pods_of_the_kin_are_told_with_the_label_of_which_they_keep_the_domain() -> None:
    """A driver without GPUs is in the way, too; when it goes its domain may be free."""
    listeners: list[Listener[ClusterPod]] = []
    store = SimpleNamespace(subscribe=listeners.append)
    found = KinPods(store)
    (tell,) = listeners
    gone: list[None] = []
    found.on_gone.append(lambda: gone.append(None))
    for key, each in (
        ("a", pod_of("a", "n1", leads=True)),
        ("b", pod_of("b", "n2")),
        ("c", pod_of("c")),
        ("d", pod_of("d", "n4", gpus=0)),
    ):
        tell(Changed(("jobs", key), each))
    at = {Occupied(NodeName("n1"), RACK), Occupied(NodeName("n2")), Occupied(NodeName("n4"))}
    assert {*found.occupied(KIN, GangId("other"))} == at
    own = pod_of("a", "n1").gang_id
    assert {*found.occupied(KIN, own)} == at - {Occupied(NodeName("n1"), RACK)}
    assert not [*found.occupied(Kin(KEY, "7"), GangId("other"))]
    tell(Removed(("jobs", "a"), pod_of("a")))
    assert not gone
    tell(Removed(("jobs", "d"), pod_of("d")))
    assert gone == [None]
    assert {*found.occupied(KIN, GangId("other"))} == {Occupied(NodeName("n2"))}


def test_two_gangs_that_are_planned_one_after_the_other_are_in_two_domains() -> None:
    """Before any pod of the first one is opened: its hold says where it will be."""
    made = answers()
    state = made._state  # the nodes get a label
    for number, node_name in enumerate(NAMES):
        node = state.capacity.host(node_name)
        assert node is not None
        assert node.cluster is not None
        state.follow_cluster([replace(node.cluster, labels=((RACK, f"r{number // 4}"),))])
    wish = Request(
        pods=2, gpus_per_pod=8, group_size=16, own_domains=(OwnDomains(1, 2, RACK),), kin=KIN
    )
    racks, refused = [], 0
    for name in ("a", "b", "c"):
        wanted = tuple(
            Member(uid=PodUid(f"{name}-{rank}"), name=f"{name}-{rank}", rank=rank, version="1")
            for rank in range(2)
        )
        gang = Gang(
            id=GangId(name),
            namespace="jobs",
            name=name,
            kind="Job",
            binding=Binding.PIECEMEAL,
            request=wish,
            at_least=2,
            priority=0,
            created_s=0.0,
            members=wanted,
            labelled={},
        )
        made.known = {**made.known, gang.id: gang}
        found = made.place(Place(id=gang.id, ask=1, request=wish, wanted=wanted), tuple)
        if isinstance(found, Planned):
            racks.append({NAMES.index(node) // 4 for node in found.nodes})
        else:
            refused += 1
    assert refused == 1
    assert sorted(map(sorted, racks)) == [[0], [1]]
