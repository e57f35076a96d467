"""Domains of nodes that pods of parts of jobs keep each other out of: who is where, who plans."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from master.controllers.nomination.kin_pods import KinPods
from master.controllers.nomination.placement_answers import PlacementAnswers
from master.kube.gang_pod import ClusterPod
from master.kube.objects import PODS
from master.kube.reflector import Changed, Listener, Removed
from tests.controllers.nomination.gang_world import gang_world, is_open, nominated
from tests.controllers.nomination.objects import GPU, parse
from tests.controllers.nomination.test_held_room import NAMES, answers
from topo.gangs.machine.events import Planned, Refused
from topo.gangs.machine.gang import Binding, Gang, GangId, Member, PodUid
from topo.gangs.machine.instructions import Check, Occupied, Place
from topo.gangs.stamp import Stamp
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


GROUP, SUBGROUP = (
    Kin(f"leaderworkerset.sigs.k8s.io/{key}", "jobs") for key in ("group-key", "subgroup-key")
)


def test_a_pod_of_an_exclusive_subgroup_keeps_out_subgroups_alone_and_is_known_to_groups() -> None:
    listeners: list[Listener[ClusterPod]] = []
    found = KinPods(SimpleNamespace(subscribe=listeners.append))
    (tell,) = listeners
    expression = {"key": SUBGROUP.label, "operator": "Exists"}
    against = {"topologyKey": RACK, "labelSelector": {"matchExpressions": [expression]}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [against]}
    metadata = {"name": "a", "namespace": "jobs", "uid": "a"}
    labels = {GROUP.label: "g", SUBGROUP.label: "s"}
    spec = {"nodeName": "n1", "containers": [], "affinity": {"podAntiAffinity": required}}
    pod = parse({"metadata": {**metadata, "labels": labels}, "spec": spec, "status": {}})
    other = parse({"metadata": {**metadata, "labels": {GROUP.label: "g"}}, "spec": spec})
    tell(Changed(("jobs", "a"), pod))
    at = Occupied(NodeName("n1"), RACK)
    assert [*found.occupied(SUBGROUP, GangId("other"))] == [at]
    assert [*found.occupied(GROUP, GangId("other"))] == [at._replace(label="")]
    tell(Changed(("jobs", "a"), other))
    assert not [*found.occupied(SUBGROUP, GangId("other"))]
    tell(Removed(("jobs", "a"), other))
    assert not [*found.occupied(GROUP, GangId("other"))]


WISH = Request(
    pods=2, gpus_per_pod=8, group_size=16, own_domains=(OwnDomains(1, 2, RACK),), kins=(KIN,)
)


def in_racks() -> PlacementAnswers:
    """Placement for the vendor's eight nodes, in two racks of four."""
    made = answers()
    state = made._state  # the nodes get a label
    for number, name in enumerate(NAMES):
        node = state.capacity.host(name)
        assert node is not None
        assert node.cluster is not None
        state.follow_cluster([replace(node.cluster, labels=((RACK, f"r{number // 4}"),))])
    return made


def known(made: PlacementAnswers, name: str, wish: Request = WISH) -> Place:
    """The question of a gang, which is known from then on."""
    wanted = tuple(
        Member(uid=PodUid(f"{name}-{rank}"), name=f"{name}-{rank}", rank=rank, version="1")
        for rank in range(wish.pods)
    )
    gang = Gang(
        id=GangId(name),
        namespace="jobs",
        name=name,
        kind="Job",
        binding=Binding.PIECEMEAL,
        request=wish,
        at_least=wish.pods,
        priority=0,
        created_s=0.0,
        members=wanted,
        labelled={},
    )
    made.known = {**made.known, gang.id: gang}
    return Place(id=gang.id, ask=1, request=wish, wanted=wanted)


def racks(found: Planned | Refused) -> set[int]:
    """Where the pods were planned; nowhere if they were refused."""
    return {NAMES.index(node) // 4 for node in found.nodes} if isinstance(found, Planned) else set()


def test_two_gangs_that_are_planned_one_after_the_other_are_in_two_domains() -> None:
    """Before any pod of the first one is opened: its hold says where it will be."""
    made = in_racks()
    found = [racks(made.place(known(made, name), tuple)) for name in ("a", "b", "c")]
    assert sorted(map(sorted, found)) == [[], [0], [1]]


@pytest.mark.parametrize(
    ("wish", "where"),
    [
        (replace(WISH, kins=(GROUP,)), {1}),
        (replace(WISH, kins=(SUBGROUP, GROUP)), {1}),
        (replace(WISH, own_domains=(), kins=(GROUP, SUBGROUP)), {1}),
        (replace(WISH, own_domains=(), kins=(GROUP,)), {0}),
        (WISH, {0}),
    ],
    ids=["groups", "subgroups", "of-plain-subgroups", "plain", "of-sets"],
)
def test_beside_exclusive_subgroups_are_only_pods_that_no_term_of_either_forbids(
    wish: Request, where: set[int]
) -> None:
    made = in_racks()
    assert racks(
        made.place(known(made, "first", replace(WISH, kins=(SUBGROUP, GROUP))), tuple)
    ) == {0}
    assert racks(made.place(known(made, "second", wish), tuple)) == where


def test_no_kin_goes_beside_the_nodes_that_are_kept_for_one_that_waits_for_their_domain() -> None:
    made = in_racks()
    plain = replace(WISH, own_domains=())
    asked = known(made, "behind", plain)
    kept = (NAMES[0],)
    assert racks(made.place(replace(asked, without=kept), tuple)) == {0}
    again = in_racks()
    known(again, "head")
    asked = replace(known(again, "behind", plain), without=kept)
    assert racks(again.place(asked, tuple)) == {1}
    full = known(again, "full", replace(plain, pods=6))
    refused = again.place(replace(full, without=kept), tuple)
    assert isinstance(refused, Refused)
    assert refused.behind


@pytest.mark.virtual_time
async def test_a_gang_gets_the_rack_of_a_driver_only_once_that_has_ended() -> None:
    """Two parts need both racks; the driver of another JobSet takes no GPUs, and none are freed."""
    async with gang_world() as world:
        for number, name in enumerate(NAMES):
            labels = world.api.objects["/api/v1/nodes", name].document["metadata"]["labels"]
            labels[RACK] = f"r{number // 4}"
            world.api.touch("/api/v1/nodes", name)
        labels = {KEY: "driver", PRIORITY: "0"}
        spec = {"nodeName": "node-1", "containers": [{"name": "main", "resources": {}}]}
        status = {"phase": "Running"}
        metadata = {"namespace": "others", "labels": labels}
        world.api.add(PODS, "driver", metadata=metadata, spec=spec, status=status)
        stamp = Stamp(4, 0, 2, own_domains=(OwnDomains(2, 2, RACK),))
        pods = [world.add_pod(rank, stamp=stamp) for rank in range(4)]
        for rank, pod in enumerate(pods):
            pod.document["metadata"]["labels"] = {KEY: f"job-{rank // 2}", PRIORITY: "0"}
            world.api.touch("/api/v1/namespaces/jobs/pods", pod.document["metadata"]["name"])
        await asyncio.sleep(5)
        assert not any(map(is_open, pods))
        world.api.remove(PODS, "driver", "others")
        await asyncio.sleep(5)
        assert all(map(is_open, pods))
        racks = [NAMES.index(NodeName(nominated(pod))) // 4 for pod in pods]
        assert racks == [0, 0, 1, 1]


def test_a_plan_is_lost_once_a_pod_of_its_kin_is_in_its_domain() -> None:
    """Between the plan and the gates a pod that no master opened may be bound there."""
    made = in_racks()
    asks = known(made, "a")
    plan = made.place(asks, tuple)
    assert isinstance(plan, Planned)
    waiting = tuple(zip(asks.wanted, plan.nodes, strict=True))
    check = Check(id=asks.id, ask=2, request=WISH, waiting=waiting, bound=(), holds=(plan.hold,))
    assert made.check(check, "", ()).lost == ()
    made.occupied = lambda *_: [Occupied(plan.nodes[0])]
    assert {node for node, _ in made.check(check, "", ()).lost} == {*plan.nodes}
