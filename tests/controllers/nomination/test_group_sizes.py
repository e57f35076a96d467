"""The size of a group of a LeaderWorkerSet whose size was changed: it is on its pods alone."""

from typing import Any

import pytest

from master.controllers.nomination.gangs.builder import build_gang
from master.kube.gang_pod import GangPod
from tests.controllers.nomination.objects import gang_context, parse
from tests.gangs.admission.patching import RULES, patched
from tests.gangs.job_kinds import made
from topo.gangs.admission.pods import admit_pod

LWS = "leaderworkerset.sigs.k8s.io"
OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet"}


def group(pods: int, said: tuple[str, ...], leader_gpus: int | None = 8) -> int:
    """How many ranks a group has that was made of 4 pods, with so many now, which say a size."""
    found = made.admitted(made.leader_worker_set(4, leader_gpus=leader_gpus))
    template = found["spec"]["leaderWorkerTemplate"]
    leader = template.get("leaderTemplate", template["workerTemplate"])
    parsed = []
    for index in range(pods):
        labels = {"name": "train", "group-index": "0", "worker-index": str(index)}
        labels = {f"{LWS}/{key}": value for key, value in labels.items()}
        pod: Any = made.pod(template["workerTemplate"] if index else leader, labels, OWNER)
        pod["metadata"] |= {"name": f"train-0-{index}", "uid": f"uid-{index}"}
        pod = patched(pod, admit_pod(pod, RULES).patch)
        if said[index % len(said)]:
            pod["metadata"]["annotations"][f"{LWS}/size"] = said[index % len(said)]
        each = parse(pod)
        if isinstance(each, GangPod) and each.gated:
            parsed.append(each)
    return build_gang(parsed[0].gang_id, parsed, gang_context()).request.pods


@pytest.mark.parametrize(("leader_gpus", "pods"), [(8, 2), (None, 2), (0, 1)])
def test_a_group_of_a_set_that_got_smaller_waits_for_its_pods_alone(
    leader_gpus: int | None, pods: int
) -> None:
    assert group(2, ("2",), leader_gpus) == pods


@pytest.mark.parametrize(
    ("said", "pods"),
    [(("8",), 4), (("999999999",), 4), (("2", "4"), 4), (("2", ""), 4), (("no",), 4), (("0",), 4)],
)
def test_pods_make_their_group_no_larger_and_smaller_only_if_all_agree(
    said: tuple[str, ...], pods: int
) -> None:
    assert group(2, said) == pods


def test_a_rank_that_is_there_counts_whatever_the_pods_say() -> None:
    assert group(4, ("2",)) == 4
