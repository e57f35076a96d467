"""What a gang is read from: its pods, and what stands beside them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.controllers.nomination.gangs.builder import build_gang
from master.controllers.nomination.index import GangIndex
from master.controllers.nomination.queues.quota import AskedGpus, MissingQuota
from master.kube.eligibility import with_eligibility
from master.kube.gang_pod import GangPod, NodeWants
from tests.controllers.nomination.objects import (
    CREATED_S,
    GANG,
    JOB,
    LABEL,
    WORDS,
    gang_context,
    gang_of_job,
    labelled_node,
    pod,
    pod_group,
)
from topo.gangs import note_codec
from topo.gangs.machine.gang import Binding, GangId, Note, Selection
from topo.gangs.stamp import Stamp
from topo.model.ids import Kind, NodeName
from topo.placement.booking.holds import HoldId
from topo.placement.job.request import Eligibility, PlacementMode, Request, Toleration

LET_IN = pod_group("Inqueue")
NOTE = Note(
    node=NodeName("n1"),
    group=0,
    hold=HoldId("hold-1"),
    selection=Selection("hold-1"),
    generation=3,
    certified=True,
)


def test_a_pair_of_stamped_pods_is_one_gang_in_the_order_of_ranks():
    gang = build_gang(GANG, [pod(1), pod(0)], gang_context(LET_IN, ahead_s=CREATED_S - 10.0))
    assert (gang.id, gang.namespace, gang.kind, gang.name) == (GANG, "jobs", "Job", "train")
    assert gang.binding is Binding.WHOLE
    assert gang.request == Request(pods=2, gpus_per_pod=8, group_size=16)
    assert [(each.uid, each.rank) for each in gang.members] == [("pod-0", 0), ("pod-1", 1)]
    assert all(each.gated and not each.other_gates for each in gang.members)
    assert (gang.awaits, gang.ungated) == ("", "")
    assert gang.created_s == 10.0


def test_the_ranks_of_a_second_template_begin_where_the_first_ends():
    master, worker = pod(0, stamp=Stamp(3, 0, 1)), pod(1, stamp=Stamp(3, 1, 1))
    gang = build_gang(GANG, [worker, master], gang_context(LET_IN))
    assert [each.rank for each in gang.members] == [0, 2]


@pytest.mark.parametrize(
    ("group", "keys"),
    [
        (None, "PodGroup train-job-1 is not there yet"),
        (pod_group("Pending", why="queue full"), "is Pending in queue q1: queue full"),
        (pod_group(""), "is not looked at yet in queue q1"),
        (pod_group("Inqueue"), ""),
        (pod_group("Running"), ""),
    ],
    ids=["none", "pending", "new", "inqueue", "running"],
)
def test_a_gang_of_volcano_awaits_its_queue(group: Any, keys: str):
    gang = build_gang(GANG, [pod(0), pod(1)], gang_context(*([group] if group else [])))
    assert keys in gang.awaits
    assert bool(keys) == bool(gang.awaits)


def test_a_gang_awaits_the_room_of_its_queue_for_all_of_its_pods():
    asked: list[AskedGpus] = []

    def missing_quota(each: AskedGpus) -> MissingQuota:
        asked.append(each)
        return MissingQuota("queue q1 is full")

    context = gang_context(LET_IN, missing_quota=missing_quota)
    gang = build_gang(GANG, [pod(0), pod(1)], context)
    assert (gang.awaits, gang.hopeless) == ("queue q1 is full", False)
    assert [(each.queue, each.resource, each.gpus) for each in asked] == [
        ("q1", "metax-tech.com/gpu", 16)
    ]


@pytest.mark.parametrize("phase", ["", "Pending", "Inqueue"])
def test_a_gang_larger_than_its_queue_is_hopeless_whatever_volcano_says_yet(phase: str):
    never = MissingQuota("queue q1 may have 8 GPUs and 16 are needed", never=True)
    context = gang_context(pod_group(phase), missing_quota=lambda _: never)
    gang = build_gang(GANG, [pod(0), pod(1)], context)
    assert (gang.awaits, gang.hopeless) == (never.text, True)


def test_a_gang_of_the_kube_scheduler_awaits_nobody():
    gang = build_gang(GANG, [pod(0, group="")], gang_context())
    assert (gang.binding, gang.awaits) == (Binding.PIECEMEAL, "")


def test_what_the_user_wrote_on_his_pods_narrows_where_they_may_go():
    in_zone = {"key": "zone", "operator": "In", "values": ["a"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    bears = {"key": "gpu", "operator": "Exists"}
    spec: dict[str, Any] = {
        "affinity": affinity,
        "tolerations": [bears],
        "nodeSelector": {"pool": "x"},
    }
    nodes = (labelled_node("n1", zone="a"), labelled_node("n2", zone="b"), labelled_node("n3"))
    gang = build_gang(
        GANG, [pod(0, **spec), pod(1, **spec)], gang_context(LET_IN, nodes=lambda: nodes)
    )
    eligible = gang.request.eligible
    assert eligible.selector == (("pool", "x"),)
    assert eligible.exclude == {"n2", "n3"}
    assert eligible.tolerations == (Toleration(key="gpu", operator="Exists"),)
    assert not eligible.usage


USAGE = "metax-tech.com/node.usage"


def tolerating(*pools: str) -> dict[str, Any]:
    return {"tolerations": [{"key": USAGE, "value": pool} for pool in pools]}


def requiring(*pools: str) -> dict[str, Any]:
    of_pools = {"key": USAGE, "operator": "In", "values": [*pools]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [of_pools]}]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


@pytest.mark.parametrize(
    ("spec", "usage"),
    [
        (tolerating("training"), "training"),
        (tolerating("training", "hybrid"), "training"),
        (tolerating("inference", "hybrid"), "inference"),
        (tolerating("training", "inference", "hybrid"), ""),
        (tolerating("hybrid"), ""),
        ({"tolerations": [{"key": USAGE, "operator": "Exists"}]}, ""),
        ({"tolerations": [{"key": "team", "value": "training"}]}, ""),
        ({"nodeSelector": {USAGE: "training"}}, "training"),
        (requiring("inference", "hybrid"), "inference"),
        (requiring("training", "inference"), ""),
        ({}, ""),
    ],
)
def test_a_job_is_of_the_kind_whose_pool_alone_its_pods_name(spec: dict[str, Any], usage: str):
    gang = build_gang(GANG, [pod(0, **spec), pod(1, **spec)], gang_context(LET_IN))
    assert gang.request.eligible.usage == usage


def test_our_own_selector_and_a_fixed_host_name_narrow_nothing():
    own = {LABEL: "hold-1"}
    fixed = {"kubernetes.io/hostname": "n9"}
    gang = build_gang(
        GANG, [pod(0, gates=(), nodeSelector=own), pod(1, nodeSelector=fixed)], gang_context(LET_IN)
    )
    assert gang.request.eligible.selector == ()
    assert [(each.fixed, each.selection) for each in gang.members] == [
        (None, "hold-1"),
        ("n9", ""),
    ]


def test_the_topology_that_a_user_of_volcano_demands_is_kept():
    group = pod_group("Inqueue", topology={"mode": "hard", "highestTierAllowed": 2})
    context = gang_context(group, kind_of_tier=lambda tier: Kind(f"kind-{tier}"))
    assert build_gang(GANG, [pod(0), pod(1)], context).request.within == "kind-2"
    soft = pod_group("Inqueue", topology={"mode": "soft", "highestTierAllowed": 2})
    context = gang_context(soft, kind_of_tier=lambda tier: Kind(f"kind-{tier}"))
    assert build_gang(GANG, [pod(0), pod(1)], context).request.within is None


def test_terms_are_those_of_the_annotations():
    asked = {WORDS.mode: "preferred", WORDS.within: "switchbox", WORDS.wait: "10m"}
    pods = [pod(0, annotations=asked), pod(1, annotations=asked)]
    gang = build_gang(GANG, pods, gang_context(LET_IN))
    assert (gang.request.mode, gang.request.within) == (PlacementMode.PREFERRED, "switchbox")
    assert gang.wait_s == 600.0


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"stamp": None}, "does not say which gang"),
        ({"size": "none"}, "cannot be read"),
        ({"size": "12"}, "not a whole number of pods"),
        ({"owners": ()}, "belongs to no job"),
    ],
    ids=lambda each: str(each)[:20],
)
def test_a_gate_that_nobody_could_open_by_a_plan_is_opened_without_one(
    broken: dict[str, Any], why: str
):
    pods = [pod(0, **broken), pod(1, **broken)]
    assert pods[0].is_placed_here
    assert why in build_gang(GANG, pods, gang_context(LET_IN)).ungated


def test_pods_that_differ_in_gpus_count_as_the_largest_of_them():
    """A head with fewer GPUs takes the place of a worker; equal pods have no smallest one."""
    gang = build_gang(GANG, [pod(0, gpus=4), pod(1)], gang_context(LET_IN))
    assert (gang.request.gpus_per_pod, gang.fewest_gpus, gang.ungated) == (8, 4, "")
    assert build_gang(GANG, [pod(0), pod(1)], gang_context(LET_IN)).fewest_gpus == 0


def test_what_a_person_wants_opened_is():
    context = gang_context(LET_IN, ungated={GANG: "kim wants it"})
    assert build_gang(GANG, [pod(0), pod(1)], context).ungated == "kim wants it"


def test_an_order_to_open_holds_for_pods_that_come_later_and_for_every_leader():
    """Nobody remembers it but the pods that were opened by it."""
    opened = pod(
        0, gates=(), annotations={WORDS.placement: note_codec.encode_unplanned("kim wants it")}
    )
    assert build_gang(GANG, [opened, pod(1)], gang_context(LET_IN)).ungated == "kim wants it"


def test_a_pod_that_another_gate_keeper_placed_is_no_order_to_open_the_others():
    fixed = {"kubernetes.io/hostname": "n1"}
    unplanned = {WORDS.placement: note_codec.encode_unplanned("Kueue chose n1")}
    opened = pod(0, gates=(), annotations=unplanned, nodeSelector=fixed)
    assert build_gang(GANG, [opened, pod(1)], gang_context(LET_IN)).ungated == ""


def test_what_was_written_comes_back():
    planned = pod(
        0,
        gates=("kueue.x-k8s.io/admission",),
        annotations={WORDS.placement: note_codec.encode_note(GANG, NOTE)},
        status={"nominatedNodeName": "n1"},
    )
    member = build_gang(GANG, [planned], gang_context(LET_IN)).members[0]
    assert (member.note, member.nominated, member.version) == (NOTE, "n1", "7")
    assert (member.gated, member.other_gates) == (False, True)


def test_pods_that_keep_off_each_other_take_a_place_apart():
    term = {"labelSelector": {"matchLabels": {}}, "topologyKey": "kubernetes.io/hostname"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    apart = pod(0, affinity={"podAntiAffinity": required})
    assert [name for name, _ in apart.takes if name.startswith("apart ")] != []
    assert build_gang(GANG, [apart], gang_context(LET_IN)).takes == apart.takes


def test_a_gate_whose_keeper_waits_to_be_the_last_does_not_keep_ours_shut():
    """Volcano takes the gate of its queues off once no other gate is on the pod."""
    gate = "scheduling.volcano.sh/queue-allocation-gate"
    place = {WORDS.placement: note_codec.encode_note(GANG, NOTE)}
    held = pod(0, gates=(WORDS.gate, gate))
    assert (held.gated, held.other_gates, held.booking) == (True, False, None)
    opened = pod(0, gates=(gate,), annotations=place)
    assert (opened.gated, opened.other_gates, opened.opened) == (False, False, True)
    assert opened.booking is not None
    assert opened.booking.pod.node == "n1"


def test_a_version_alone_is_no_news_and_is_what_a_write_then_names():
    before, after = pod(0), pod(0, version="8")
    assert before == after
    assert build_gang(GANG, [after], gang_context()).members[0].version == "8"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        "{}",
        note_codec.encode_note(GangId("another"), NOTE),
        f'{{"gang":"{GANG}"}}',
    ],
    ids=["empty", "text", "list", "bare", "of another gang", "cut"],
)
def test_a_note_that_is_not_ours_says_nothing(text: str):
    assert note_codec.decode(GANG, text) == (None, "")


def test_only_pods_with_a_gate_a_note_or_a_stamp_are_placed_here():
    def of(found: Any) -> Any:
        return found.gang_id if isinstance(found, GangPod) and found.is_placed_here else None

    assert of(pod(0, stamp=None, size="", gates=())) is None
    assert of(pod(0, gates=())) == GANG
    assert of(pod(0, annotations={WORDS.way: "native"}, gates=())) is None
    unplanned = {WORDS.placement: note_codec.encode_unplanned("why")}
    assert of(pod(0, gates=(), annotations=unplanned)) == GANG
    fixed = {"kubernetes.io/hostname": "n1"}
    assert of(pod(0, gates=(), annotations=unplanned, nodeSelector=fixed)) is None
    assert of(pod(0, owners=(), stamp=None)) == "pod-0"


def test_a_pod_that_the_webhook_did_not_see_is_found():
    unplanned = {WORDS.placement: note_codec.encode_unplanned("x")}
    assert pod(0, stamp=None, gates=()).bypassed_webhook
    assert not pod(0).bypassed_webhook
    assert not pod(0, gates=(), annotations=unplanned).bypassed_webhook
    assert not pod(0, gates=(), annotations={WORDS.way: "native"}).bypassed_webhook
    assert not pod(0, gates=(), annotations={WORDS.ungrouped: "why"}).bypassed_webhook
    assert not isinstance(pod(0, stamp=None, size="", gates=()), GangPod)


def test_the_index_knows_pods_and_labels_of_each_gang_and_marks_what_changed():
    index, key = GangIndex(WORDS), ("jobs", "train-worker-0")
    index.pod(key, pod(0))
    index.node(
        NodeName("n1"),
        labelled_node("n1", **{LABEL: "hold-1", "other": "x"}),
    )
    assert index.take() == (GANG,)
    assert index.labelled(GANG) == {"n1": "hold-1"}
    index.node(
        NodeName("n1"),
        labelled_node("n1", **{LABEL: "hold-1", "other": "y"}),
    )
    assert index.take() == ()
    index.named(("jobs", "train-job-1"))
    assert index.take() == (GANG,)
    index.all_pods({})
    index.node(NodeName("n1"), None)
    assert index.take() == (GANG,)
    assert (list(index.gangs()), index.pods(GANG), index.labelled(GANG)) == ([], (), {})


def test_a_pod_of_another_job_under_the_name_of_an_old_one_changes_gangs():
    index, key = GangIndex(WORDS), ("jobs", "train-worker-0")
    index.pod(key, pod(0))
    index.take()
    index.pod(key, pod(0, owners=({**JOB, "uid": "job-2"},)))
    assert index.take() == (GANG, gang_of_job("job-2"))
    assert index.pods(GANG) == ()


def test_the_index_forgets_what_pods_named_before():
    index = GangIndex(WORDS)
    for at in range(5):
        index.pod(("jobs", "train-worker-0"), pod(0, group=f"group-{at}"))
        index.pod(("jobs", f"train-worker-{at + 1}"), pod(1, group="group-4"))
        index.pod(("jobs", f"train-worker-{at + 1}"), None)
    index.take()
    for at, marked in ((0, ()), (3, ()), (4, (GANG,))):
        index.named(("jobs", f"group-{at}"))
        assert index.take() == marked
    assert len(index._named) == 1
    index.all_pods({})
    assert len(index._named) == 0


def test_pods_that_select_different_nodes_are_eligible_each_for_its_own():
    four = Stamp(4, 0, 2)
    pods = [pod(rank, stamp=four, nodeSelector={"rack": "aabc"[rank]}) for rank in (0, 1, 3)]
    request = build_gang(GANG, pods, gang_context(LET_IN)).request
    on = {rack: Eligibility(selector=(("rack", rack),)) for rack in "ac"}
    assert request.eligible == Eligibility()
    assert request.by_rank == ((2, on["a"]), (1, Eligibility()), (1, on["c"]))
    assert [request.eligible_of(rank) for rank in (1, 3)] == [on["a"], on["c"]]


@given(st.integers(1, 12), st.dictionaries(st.integers(0, 15), st.sampled_from("abc"), max_size=8))
def test_runs_of_ranks_say_of_each_rank_which_nodes_its_pod_may_use(
    pods: int, racks: dict[int, str]
):
    wants = {rank: NodeWants((("rack", rack),), frozenset(), None) for rank, rack in racks.items()}
    found = with_eligibility(Request(pods=pods, gpus_per_pod=8), wants, tuple, "")
    common = Eligibility()
    if len(set(racks.values())) == 1:
        common = Eligibility(selector=(("rack", min(racks.values())),))
    expected = [
        Eligibility(selector=(("rack", racks[rank]),)) if rank in racks else common
        for rank in range(pods)
    ]
    assert [found.eligible_of(rank) for rank in range(pods)] == expected
    assert sum(number for number, _ in found.by_rank) in {0, pods}


def test_one_pod_that_says_a_million_more_come_later_makes_no_million_members():
    annotations = {WORDS.is_late: "true"}
    one = pod(0, stamp=Stamp(1_000_000, 0, 2), annotations=annotations)
    gang = build_gang(GANG, [one], gang_context(LET_IN))
    assert len(gang.members) == 1
    assert gang.ungated == "places are kept for at most 10000 pods, and it has 1000000"
    few = pod(0, stamp=Stamp(10_000, 0, 2), annotations=annotations)
    assert len(build_gang(GANG, [few], gang_context(LET_IN)).members) == 10_000


def test_our_own_selectors_of_groups_make_no_difference_between_them():
    key, four = LABEL, Stamp(4, 0, 2)
    selectors = [{key: f"hold-1-{rank // 2}"} for rank in range(4)]
    pods = [pod(at, stamp=four, gates=(), nodeSelector=each) for at, each in enumerate(selectors)]
    request = build_gang(GANG, pods, gang_context(LET_IN)).request
    assert (request.eligible, request.by_rank) == (Eligibility(), ())
