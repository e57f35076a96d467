"""Jobs with exclusive-topology: which of their parts need domains of their own, and what cannot."""

from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gangs.admission.patching import RULES, WORDS
from tests.gangs.job_kinds import made
from topo.gangs.admission.jobs import admit_job
from topo.gangs.annotation_keys import KUEUE_QUEUE
from topo.gangs.job_kinds import kinds
from topo.gangs.job_kinds.job_set import JOB_SET
from topo.gangs.stamp import (
    MAX_DOMAINS,
    Stamp,
    decode_own_domains,
    encode_own_domains,
    read_stamp,
)
from topo.model.errors import Refusal
from topo.placement.job.request import Kin, OwnDomains

OF_SETS = "alpha.jobset.sigs.k8s.io"
OF_GROUPS = "leaderworkerset.sigs.k8s.io"


def exclusive(found: Any, of: str, label: str = "rack", **more: str) -> Any:
    """The job with the annotation, and others of the same prefix."""
    found["metadata"]["annotations"][f"{of}/exclusive-topology"] = label
    found["metadata"]["annotations"] |= {
        f"{of}/{key.replace('_', '-')}": value for key, value in more.items()
    }
    return found


def stamps(found: Any) -> list[dict[str, str]]:
    """The annotations of the pods of each template of an admitted JobSet or LeaderWorkerSet."""
    spec = made.admitted(found)["spec"]
    if "replicatedJobs" in spec:
        templates = [each["template"]["spec"]["template"] for each in spec["replicatedJobs"]]
    else:
        of_group, names = spec["leaderWorkerTemplate"], ("leaderTemplate", "workerTemplate")
        templates = [of_group[name] for name in names if name in of_group]
    return [each.get("metadata", {}).get("annotations", {}) for each in templates]


def own_domains(found: Any) -> list[tuple[str | None, bool]]:
    """What each template is stamped with, and whether its pods come late."""
    return [(each.get(WORDS.own_domains), WORDS.is_late in each) for each in stamps(found)]


def test_each_job_of_a_set_needs_a_domain_and_its_first_pod_runs_before_the_others() -> None:
    found = made.job_set(
        made.replicated("driver", 1, 1, 0),
        made.replicated("a", 2, 4),
        made.replicated("b", 1, 2),
    )
    of_all = ("2x4@rack,1x2@rack", True)
    assert own_domains(exclusive(found, OF_SETS)) == [(None, False), of_all, of_all]


def test_the_annotation_of_a_replicated_job_counts_for_it_alone_and_before_that_of_the_set() -> (
    None
):
    found = made.job_set(made.replicated("a", 2, 4), made.replicated("b", 1, 2))
    template = found["spec"]["replicatedJobs"][0]["template"]
    template["metadata"] = {"annotations": {f"{OF_SETS}/exclusive-topology": "pool"}}
    assert own_domains(found) == [("2x4@pool,1x2@", True)] * 2
    assert own_domains(exclusive(found, OF_SETS)) == [("2x4@pool,1x2@rack", True)] * 2


def test_a_set_whose_user_labelled_the_nodes_of_each_job_needs_nothing_more() -> None:
    found = made.job_set(made.replicated("a", 2, 4))
    assert own_domains(exclusive(found, OF_SETS, node_selector="true")) == [(None, False)]


def test_a_group_needs_one_domain_for_its_leader_and_workers() -> None:
    found = made.leader_worker_set(4, leader_gpus=8)
    assert own_domains(exclusive(found, OF_GROUPS)) == [("1x4@rack", True)] * 2
    assert own_domains(exclusive(made.leader_worker_set(4), OF_GROUPS)) == [("1x4@rack", True)]


def test_a_leader_without_gpus_is_stamped_too_since_its_node_decides_the_domain() -> None:
    found = exclusive(made.leader_worker_set(5, leader_gpus=0), OF_GROUPS)
    assert own_domains(found) == [("1x4@rack", True)] * 2
    leader, workers = stamps(found)
    assert {leader[WORDS.pods], workers[WORDS.pods]} == {"4"}
    assert {leader[WORDS.rank_offset], workers[WORDS.rank_offset]} == {"0"}
    spec = made.admitted(found)["spec"]["leaderWorkerTemplate"]
    labels = {f"{OF_GROUPS}/{key}": "0" for key in ("group-index", "worker-index")}
    labels |= {f"{OF_GROUPS}/name": "train"}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet"}
    for template, rank in ((spec["leaderTemplate"], None), (spec["workerTemplate"], "0")):
        labels[f"{OF_GROUPS}/worker-index"] = "0" if rank is None else "1"
        pod = made.admitted(made.pod(template, labels, owner))
        assert [each["name"] for each in pod["spec"]["schedulingGates"]] == [WORDS.gate]
        assert pod["metadata"]["annotations"].get(WORDS.rank) == rank
        assert pod["metadata"]["labels"].get(WORDS.group) == rank
    shared = made.leader_worker_set(5, leader_gpus=0)
    pod = made.pod(made.admitted(shared)["spec"]["leaderWorkerTemplate"]["leaderTemplate"], {}, {})
    assert "schedulingGates" not in made.admitted(pod)["spec"]


def subgroups(size: int, of: int, kind: str, *, leader_gpus: int | None) -> Any:
    """A LeaderWorkerSet whose subgroups need a rack each, of pods that are groups by themselves."""
    found = made.leader_worker_set(size, leader_gpus=leader_gpus)
    policy = {"subGroupSize": of} | ({"subGroupPolicyType": kind} if kind else {})
    found["spec"]["leaderWorkerTemplate"]["subGroupPolicy"] = policy
    annotations = found["metadata"]["annotations"]
    annotations |= {f"{OF_GROUPS}/subgroup-exclusive-topology": "rack", WORDS.size: "8"}
    return found


def subgroup_of(pod: int, size: int, of: int, kind: str) -> int | None:
    """The subgroup of a pod, 0 the leader, as LeaderWorkerSet 0.9 labels it (`pod_webhook.go`)."""
    if pod == 0:
        return None if kind == "LeaderExcluded" else 0
    return (pod - 1) // of if (size - 1) % of == 0 else pod // of


@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from(("", "LeaderWorker", "LeaderExcluded")),
    st.sampled_from((None, 0, 8)),
    st.sampled_from((0, 1)),
)
def test_subgroups_are_the_parts_that_the_labels_of_their_pods_say(
    of: int, times: int, kind: str, leader_gpus: int | None, more: int
) -> None:
    size = of * times + (1 if kind == "LeaderExcluded" else more)
    found = subgroups(size, of, kind, leader_gpus=leader_gpus)
    ranked = range(1 if leader_gpus == 0 else 0, size)
    if not ranked:
        return
    homes = [subgroup_of(pod, size, of, kind) for pod in ranked]
    runs = [(len([*same]), "rack" if home is not None else "") for home, same in groupby(homes)]
    stamped = stamps(found)
    for each in stamped[leader_gpus == 0 :]:
        own = decode_own_domains(each[WORDS.own_domains], len(ranked))
        assert own is not None
        assert [(run.pods, run.label) for run in own for _ in range(run.times)] == runs
        assert WORDS.is_late not in each
    chooses = leader_gpus == 0 and kind != "LeaderExcluded"
    assert (WORDS.pods in stamped[0]) == (chooses or leader_gpus != 0)


def elsewhere(field: str, value: Any) -> Any:
    """A LeaderWorkerSet whose leader has no GPUs and may use other nodes than its workers."""
    found = exclusive(made.leader_worker_set(5, leader_gpus=0), OF_GROUPS)
    found["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"][field] = value
    return found


def without_gpus(found: Any) -> Any:
    """The same with workers that take none."""
    template = found["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    template["spec"]["containers"][0]["resources"] = {}
    return found


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (
            elsewhere("tolerations", [{"key": "gpu", "operator": "Exists"}]),
            "has other tolerations than they, so metax-tech.com/gpu-group-size is left alone",
        ),
        (elsewhere("nodeSelector", {"pool": "gpus"}), "give all the same nodeSelector"),
        (
            elsewhere("affinity", {"nodeAffinity": {"required": {}}}),
            "give all the same nodeAffinity",
        ),
        (
            without_gpus(exclusive(made.leader_worker_set(2, leader_gpus=16), OF_GROUPS)),
            "the pods of workers share the domain of others and take no GPUs",
        ),
        (
            exclusive(made.leader_worker_set(4), OF_GROUPS, subgroup_exclusive_topology="rack"),
            "subgroup-exclusive-topology are set, so metax-tech.com/gpu-group-size is left alone",
        ),
        (
            exclusive(made.job_set(made.replicated("a", 2, 3)), OF_SETS),
            "a group of 16 GPUs would be in several parts of the job",
        ),
        (
            exclusive(made.job_set(made.replicated("a", MAX_DOMAINS + 1, 2)), OF_SETS),
            f"{MAX_DOMAINS + 1} parts of the job need a domain each",
        ),
        (
            exclusive(made.job_set(made.replicated("a", 1, 2)), OF_SETS, "no label"),
            "name a label of nodes",
        ),
    ],
    ids=["taints", "selector", "affinity", "workers", "subgroups", "crossing", "many", "label"],
)
def test_what_cannot_have_domains_of_its_own_is_told_and_runs_without_groups(
    found: Any, told: str
) -> None:
    assert told in made.warnings(found)
    assert all(WORDS.pods not in each for each in stamps(found))


def test_a_native_job_is_left_to_its_controller() -> None:
    found = exclusive(made.job_set(made.replicated("a", 1, 2)), OF_SETS)
    found["metadata"]["annotations"][WORDS.way] = "native"
    assert "write metax-tech.com/placement-mode: nomination" in made.warnings(found)
    assert all(WORDS.pods not in each for each in stamps(found))


labels = st.sampled_from(("", "rack", "topology.kubernetes.io/zone"))
runs = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), labels), min_size=1, max_size=5)


@given(runs)
def test_what_is_stamped_is_read_again(found: list[tuple[int, int, str]]) -> None:
    own = tuple(OwnDomains(*each) for each in found)
    pods = sum(times * each for times, each, _ in found)
    stamp = Stamp(pods, 0, 1, own_domains=own)
    assert read_stamp(stamp.annotations(WORDS), WORDS) == stamp


@pytest.mark.parametrize("text", ["2x4", "2x4@rack,", "2x3@rack", "2x4@no label", "-2x4@rack"])
def test_any_other_text_is_refused(text: str) -> None:
    assert decode_own_domains(text, 8) is None
    annotations = {**Stamp(8, 0, 1).annotations(WORDS), WORDS.own_domains: text}
    assert isinstance(read_stamp(annotations, WORDS), Refusal)


def test_more_domains_than_are_looked_for_are_refused() -> None:
    most = (OwnDomains(MAX_DOMAINS, 2, "rack"),)
    assert decode_own_domains(encode_own_domains(most), 2 * MAX_DOMAINS) == most
    more = (OwnDomains(MAX_DOMAINS + 1, 2, "rack"),)
    assert decode_own_domains(encode_own_domains(more), 2 * MAX_DOMAINS + 2) is None


def test_pods_of_sets_are_apart_by_their_priority_and_pods_of_groups_by_their_namespace() -> None:
    """As the anti-affinities that JobSet 0.12 and LeaderWorkerSet 0.9 write say it."""
    of_set = {"jobset.sigs.k8s.io/job-key": "a", "jobset.sigs.k8s.io/priority": "0"}
    assert kinds.kins_of("one", of_set) == kinds.kins_of("two", of_set)
    assert kinds.kins_of("one", of_set) != kinds.kins_of(
        "one", {**of_set, "jobset.sigs.k8s.io/priority": "7"}
    )
    assert not kinds.kins_of("one", {"jobset.sigs.k8s.io/job-key": "a"})
    of_group = {f"{OF_GROUPS}/group-key": "a"}
    group, subgroup = (Kin(f"{OF_GROUPS}/{key}", "one") for key in ("group-key", "subgroup-key"))
    assert kinds.kins_of("one", of_group) == (group,)
    assert kinds.kins_of("one", {**of_group, subgroup.label: "b"}) == (group, subgroup)
    assert not kinds.kins_of("one", {})


def test_a_group_size_that_would_be_in_several_parts_is_told_the_one_that_fits() -> None:
    for pods, fits in ((3, 8), (6, 16)):
        found = exclusive(made.job_set(made.replicated("a", 2, pods)), OF_SETS)
        found["metadata"]["annotations"][WORDS.size] = "32"
        assert f"give {fits}" in made.warnings(found)


def test_a_job_that_is_booked_by_its_pods_alone_is_not_held_before_its_quota() -> None:
    holds = replace(RULES, holds_jobs=True)
    for is_exclusive in (False, True):
        found = made.job_set(made.replicated("a", 2, 2))
        found["metadata"]["labels"] = {KUEUE_QUEUE: "queue"}
        found = exclusive(found, OF_SETS) if is_exclusive else found
        patch = admit_job(found, JOB_SET.parts(found), holds).patch
        assert ("admission-gated-by" in str(patch)) is not is_exclusive
