"""Jobs that Kueue admits and whose nodes it chooses: the slices of their pod sets."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gangs.admission.patching import RULES, SIZE, WORDS, admitted, batch, patched
from tests.gangs.job_kinds import made as jobs
from tests.gangs.native.test_native import BOXES, PAIRS
from topo.gangs.admission.jobs import admit_job, admit_relayed
from topo.gangs.admission.outcome import Result
from topo.gangs.job_kinds.deployment import DEPLOYMENT
from topo.gangs.job_kinds.job_set import job_set
from topo.gangs.job_kinds.kinds import job_kind
from topo.gangs.job_kinds.ray_cluster import RAY_CLUSTER
from topo.gangs.job_kinds.train_job import TRAIN_JOB, relay
from topo.gangs.job_kinds.training_operator import MPI_JOB, PYTORCH_JOB
from topo.gangs.terms import Way
from topo.model.ids import DRAGONFLY, SWITCHBOX

FLY, BOX = "metax-tech.com/dragonfly", "metax-tech.com/switchbox"
KUEUE = "kueue.x-k8s.io"
LEVEL, SLICE = f"{KUEUE}/podset-slice-required-topology", f"{KUEUE}/podset-slice-size"
REQUIRED, PREFERRED = f"{KUEUE}/podset-required-topology", f"{KUEUE}/podset-preferred-topology"
NATIVE = replace(
    RULES, way=Way.NATIVE, tiers=(PAIRS, BOXES), label_keys={DRAGONFLY: FLY, SWITCHBOX: BOX}
)


def queued(pods: int, size: str, **annotations: str) -> dict[str, Any]:
    """A batch Job in a queue of Kueue; a name such as gpu_group_mode is of our domain."""
    made = batch(pods, size=size)
    made["metadata"]["labels"] = {f"{KUEUE}/queue-name": "training"}
    of_pods = made["spec"]["template"]["metadata"]["annotations"]
    of_pods |= {
        key if "/" in key else f"metax-tech.com/{key.replace('_', '-')}": value
        for key, value in annotations.items()
    }
    return made


def asked(made: dict[str, Any], rules: Any = NATIVE) -> dict[str, str]:
    """What the pods of the admitted job ask of Kueue."""
    outcome = admitted(made, rules)
    assert outcome.result is Result.STAMPED, outcome.refusal
    after = patched(made, outcome.patch)
    assert admitted(after, rules).result is Result.UNCHANGED, "a second review changes nothing"
    annotations = after["spec"]["template"]["metadata"]["annotations"]
    assert annotations.get(WORDS.topology_key) == annotations.get(LEVEL), "for our own status"
    return {key: value for key, value in annotations.items() if key.startswith(KUEUE)}


def test_a_group_is_a_slice_of_as_many_pods_inside_the_lowest_tier_that_holds_it() -> None:
    assert asked(queued(8, "16")) == {LEVEL: FLY, SLICE: "2"}
    assert asked(queued(8, "64")) == {LEVEL: BOX, SLICE: "8"}


def test_a_job_smaller_than_a_group_is_one_slice() -> None:
    assert asked(queued(3, "64")) == {LEVEL: BOX, SLICE: "3"}


def test_all_pods_share_one_group_of_the_kind_within() -> None:
    found = asked(queued(8, "16", gpu_group_within="switchbox"))
    assert found == {LEVEL: FLY, SLICE: "2", REQUIRED: BOX}


def test_preferred_groups_are_no_slices() -> None:
    made = queued(7, "16", gpu_group_mode="preferred")
    assert asked(made) == {PREFERRED: FLY}


def test_pods_that_make_no_whole_slices_are_refused_with_the_numbers_that_do() -> None:
    outcome = admitted(queued(7, "16"), NATIVE)
    assert outcome.refusal is not None
    assert "7 is not a multiple of 2" in outcome.refusal.what
    assert outcome.refusal.fix == (f"give it 6 or 8 pods, or write {WORDS.way}: nomination")
    assert outcome.refusal.where == f"spec.template.metadata.annotations[{SIZE}]"


@pytest.mark.parametrize("policy", ["TerminatingOrFailed", None])
def test_a_job_whose_pods_are_replaced_while_they_end_is_told_that_kueue_may_split_it(
    policy: str | None,
) -> None:
    made = queued(8, "16")
    made["spec"] |= {"podReplacementPolicy": policy} if policy else {}
    (warning,) = admitted(made, NATIVE).warnings
    assert warning.startswith("spec.podReplacementPolicy is TerminatingOrFailed: ")
    assert warning.endswith("write Failed")
    made["spec"]["podReplacementPolicy"] = "Failed"
    assert admitted(made, NATIVE).warnings == ()
    assert admitted(made).warnings == (), "the master chooses its nodes"
    may_be_split = queued(8, "16", gpu_group_mode="preferred")
    assert admitted(may_be_split, NATIVE).warnings == ()


def test_each_replicated_job_whose_pods_are_replaced_while_they_end_is_told() -> None:
    """Those with GPUs; a PyTorchJob has no such field, and makes no pod before the old one went."""
    made = jobs.job_set(
        jobs.replicated("driver", 1, 1, gpus=0),
        jobs.replicated("workers", 2, 4),
    )
    made["metadata"]["labels"] = {f"{KUEUE}/queue-name": "training"}
    (warning,) = admit_job(made, job_set(made), NATIVE).warnings
    where = "spec.replicatedJobs[1].template.spec.podReplacementPolicy"
    assert warning.startswith(f"{where} is TerminatingOrFailed: ")
    made["spec"]["replicatedJobs"][1]["template"]["spec"]["podReplacementPolicy"] = "Failed"
    assert admit_job(made, job_set(made), NATIVE).warnings == ()


def test_a_kind_that_no_group_is_and_one_without_a_label_are_refused() -> None:
    none = admitted(queued(8, "16", gpu_group_within="leaf"), NATIVE).refusal
    assert none is not None
    assert "no group of the tree is one" in none.what
    unnamed = admitted(queued(8, "16"), replace(NATIVE, label_keys={SWITCHBOX: BOX})).refusal
    assert unnamed is not None
    assert "no label of nodes" in unnamed.what


@pytest.mark.parametrize("way", [Way.NATIVE, Way.NOMINATION])
@pytest.mark.parametrize("key", [LEVEL, f"{KUEUE}/podset-unconstrained-topology", REQUIRED])
def test_a_job_that_asks_kueue_itself_is_left_alone_and_its_user_told(way: Way, key: str) -> None:
    """With both, the two that choose its nodes would contradict each other."""
    outcome = admitted(queued(8, "16", **{key: "example.com/rack"}), replace(NATIVE, way=way))
    assert outcome.result is Result.LEFT
    assert key in outcome.warnings[0]
    assert "remove one of the two" in outcome.warnings[0]


def test_while_no_group_is_known_nothing_is_decided() -> None:
    assert admitted(queued(8, "16"), replace(NATIVE, tiers=())).result is Result.UNDECIDED


def test_a_job_without_a_queue_of_kueue_is_none_of_these() -> None:
    assert admitted(batch(8), NATIVE).refusal is not None
    made = queued(8, "16")
    assert not [
        key
        for key in patched(made, admitted(made).patch)["spec"]["template"]["metadata"][
            "annotations"
        ]
        if key.startswith(KUEUE)
    ], "nominated: Kueue gives quota, and this program the nodes"


def test_each_replicated_job_of_a_job_set_is_a_pod_set_of_whole_slices() -> None:
    """Two Jobs of four pods are eight pods in the order of ranks."""
    worker = {"name": "worker", "replicas": 2, "template": {"spec": batch(4)["spec"]}}
    made = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "labels": {f"{KUEUE}/queue-name": "training"}},
        "spec": {"replicatedJobs": [worker]},
    }
    outcome = admit_job(made, job_set(made), NATIVE)
    assert outcome.refusal is None
    (after,) = patched(made, outcome.patch)["spec"]["replicatedJobs"]
    annotations = after["template"]["spec"]["template"]["metadata"]["annotations"]
    assert (annotations[LEVEL], annotations[SLICE]) == (FLY, "2")
    other = {**made, "kind": "Other"}
    assert admit_job(other, job_set(other), NATIVE).refusal is not None, "cut in other ways"


def pod_sets(found: dict[str, Any]) -> list[dict[str, str]]:
    """What each template with GPUs asks of Kueue, once its job in a queue was admitted natively."""
    found["metadata"]["labels"] = {f"{KUEUE}/queue-name": "training"}
    kind = job_kind([(found["apiVersion"], found["kind"])])
    assert kind is not None
    outcome = admit_job(found, kind.parts(found), NATIVE)
    if outcome.refusal is not None:
        return []
    after = kind.parts(patched(found, outcome.patch))
    asked = [
        {key: text for key, text in each.annotations.items() if key.startswith(KUEUE)}
        for each in after.templates
    ]
    return [each for each in asked if each]


WHOLE = {LEVEL: FLY, SLICE: "2"}
FROM_1 = {**WHOLE, f"{KUEUE}/pod-index-offset": "1"}


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (jobs.stateful_set(8, podManagementPolicy="Parallel"), WHOLE),
        (
            jobs.stateful_set(8, podManagementPolicy="Parallel", ordinals={"start": 1}),
            FROM_1,
        ),
        (jobs.leader_worker_set(8), WHOLE),
        (jobs.leader_worker_set(9, leader_gpus=0), FROM_1),
        (jobs.roles(PYTORCH_JOB, "pytorchReplicaSpecs", Worker=8), WHOLE),
        (jobs.roles(MPI_JOB, "mpiReplicaSpecs", Worker=8), WHOLE),
    ],
)
def test_pods_with_an_index_are_cut_into_slices_by_it(
    found: dict[str, Any], wanted: dict[str, str]
) -> None:
    """Workers after a leader, and ordinals with a start, are numbered from that on."""
    assert pod_sets(found) == [wanted]


@pytest.mark.parametrize(
    "found",
    [
        jobs.roles(PYTORCH_JOB, "pytorchReplicaSpecs", Master=1, Worker=7),
        jobs.leader_worker_set(8, leader_gpus=8),
        jobs.ray_cluster((8, 1)),
        jobs.job(DEPLOYMENT, {"replicas": 8, "template": jobs.pod_template()}, gpu_group_size="16"),
    ],
)
def test_a_pod_set_of_one_pod_and_pods_without_an_index_are_no_slices(
    found: dict[str, Any],
) -> None:
    assert pod_sets(found) == []


def train_job(way: str = "native", **trainer: Any) -> dict[str, Any]:
    """A TrainJob in a queue, whose runtime says what its trainer does not."""
    found = jobs.job(TRAIN_JOB, {"trainer": trainer}, gpu_group_size="16", placement_mode=way)
    found["metadata"]["labels"] = {f"{KUEUE}/queue-name": "training"}
    return found


def relayed(found: dict[str, Any]) -> Any:
    """The template of the JobSet in the patch of an admitted TrainJob."""
    outcome = admit_relayed(found, TRAIN_JOB.parts(found), relay, NATIVE)
    assert outcome.refusal is None, outcome.refusal
    (patch,) = patched(found, outcome.patch)["spec"]["runtimePatches"]
    return patch["trainingRuntimeSpec"]["template"]


GPUS = {"limits": {"metax-tech.com/gpu": "8"}}


def test_a_train_job_hands_its_slices_to_the_pods_of_its_job_set() -> None:
    """Kueue reads them from the patch, before there is a JobSet for the webhook."""
    found = relayed(train_job(numNodes=8, resourcesPerNode=GPUS))
    (node,) = found["spec"]["replicatedJobs"]
    assert node["template"]["spec"]["template"]["metadata"]["annotations"] == WHOLE
    assert "spec" not in relayed(train_job("nomination", numNodes=8, resourcesPerNode=GPUS))


def test_the_job_set_of_a_sliced_train_job_is_in_its_queue_without_a_label() -> None:
    spec = batch(8, size=None)["spec"]
    spec["template"]["metadata"] = {"annotations": dict(WHOLE)}
    found = jobs.job_set({"name": "node", "replicas": 1, "template": {"spec": spec}})
    found["metadata"]["ownerReferences"] = [{"kind": "TrainJob", "controller": True}]
    outcome = admit_job(found, job_set(found), NATIVE)
    assert outcome.result is Result.STAMPED
    assert outcome.refusal is None
    (after,) = job_set(patched(found, outcome.patch)).templates
    assert WHOLE.items() <= after.annotations.items()
    assert after.annotations[WORDS.way] == "native"


@pytest.mark.parametrize(
    ("trainer", "why"),
    [
        ({"resourcesPerNode": GPUS}, "spec.trainer.numNodes"),
        ({"numNodes": 8}, "no pod takes whole GPUs"),
        ({"numNodes": 7, "resourcesPerNode": GPUS}, "7 is not a multiple of 2"),
    ],
)
def test_a_train_job_that_says_no_whole_slices_itself_is_refused(
    trainer: dict[str, Any], why: str
) -> None:
    found = train_job(**trainer)
    outcome = admit_relayed(found, TRAIN_JOB.parts(found), relay, NATIVE)
    assert why in str(outcome.refusal)


@given(pods=st.integers(1, 64), per_group=st.integers(1, 8))
def test_a_job_is_taken_just_where_its_pods_are_whole_slices(pods: int, per_group: int) -> None:
    outcome = admitted(queued(pods, str(8 * per_group)), NATIVE)
    is_whole = pods % per_group == 0 or pods < per_group
    assert (outcome.refusal is None) == is_whole


HELD_BY = f"{KUEUE}/admission-gated-by"
HOLDS = replace(RULES, holds_jobs=True)


@pytest.mark.parametrize(
    ("others", "wanted"),
    [
        ("", WORDS.whole_groups),
        ("example.com/a", f"example.com/a,{WORDS.whole_groups}"),
        (WORDS.whole_groups, WORDS.whole_groups),
    ],
)
def test_a_nominated_job_in_a_queue_is_held_before_its_quota_beside_others(
    others: str, wanted: str
) -> None:
    made = queued(8, "16")
    if others:
        made["metadata"]["annotations"] = {HELD_BY: others}
    after = patched(made, admitted(made, HOLDS).patch)
    assert after["metadata"]["annotations"][HELD_BY] == wanted
    assert admitted(after, HOLDS).result is Result.UNCHANGED, "a second review changes nothing"


@pytest.mark.parametrize("owner", ["", "RayJob"])
def test_a_ray_cluster_in_a_queue_is_held_but_for_one_that_a_job_made(owner: str) -> None:
    found = jobs.ray_cluster((4, 1))
    found["metadata"]["labels"] = {f"{KUEUE}/queue-name": "queue"}
    if owner:
        found["metadata"]["ownerReferences"] = [{"kind": owner, "controller": True}]
    after = patched(found, admit_job(found, RAY_CLUSTER.parts(found), HOLDS).patch)
    assert (HELD_BY in after["metadata"]["annotations"]) == (not owner)


def test_no_other_job_is_held() -> None:
    outside, native = batch(8, size="16"), queued(8, "16", placement_mode="native")
    rules = replace(NATIVE, holds_jobs=True, way=Way.NOMINATION)
    for made, by in ((outside, rules), (native, rules), (queued(8, "16"), RULES)):
        after = patched(made, admitted(made, by).patch)
        assert HELD_BY not in after["metadata"].get("annotations", {})
