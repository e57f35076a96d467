"""Which jobs have pods whose groups Kueue has to keep whole, as each master knows it."""

import copy
from typing import Any

import pytest

from master.admission.native_pods import NativePods
from master.kube.gang_pod import ClusterPod
from master.kube.objects import PODS, Key
from master.kube.reflector import Changed, Listed, Listener, Removed
from tests.controllers.nomination.objects import WORDS, gated_pod, parse
from topo.gangs.annotation_keys import KUEUE_WORKLOAD
from topo.gangs.job_kinds.training_operator import MPI_JOB
from topo.gangs.machine.gang import GangId, gang_of_owner
from topo.gangs.stamp import Stamp

UID, KEY = "0f2a", ("jobs", "train-worker-0")
GANG = gang_of_owner("jobs", MPI_JOB.api_version, MPI_JOB.kind, UID)
PODSET = "kueue.x-k8s.io/podset"
ENDING = {"deletionTimestamp": "2026-01-02T03:04:05Z"}


class Store:
    """Tells its one listener what it is given."""

    def __init__(self, *, synced: bool = True) -> None:
        self.resource: Any = PODS
        self.objects: dict[Key, ClusterPod] = {}
        self.synced = synced
        self.tell: Listener[ClusterPod] = lambda _: None

    def subscribe(self, listener: Listener[ClusterPod]) -> None:
        self.tell = listener


def worker(
    way: str = "native", mode: str = "required", podset: str = "worker", **metadata: Any
) -> Any:
    """A worker of a job of Kueue's, as the API server has it."""
    found = gated_pod(0, Stamp(16, 0, 2), uid=UID, **{WORDS.way: way, WORDS.mode: mode})
    owner = {"apiVersion": MPI_JOB.api_version, "kind": MPI_JOB.kind}
    found["metadata"]["ownerReferences"][0] |= owner
    found["metadata"] |= {"name": KEY[1], "labels": {PODSET: podset} if podset else {}, **metadata}
    return found


def phase(name: str) -> Any:
    return worker() | {"status": {"phase": name}}


def known(*documents: Any, synced: bool = True) -> tuple[Store, NativePods]:
    store = Store(synced=synced)
    found = NativePods(store)
    for each in documents:
        store.tell(Changed(KEY, parse(each)))
    return store, found


@pytest.mark.parametrize(
    ("document", "group"),
    [
        (worker(), 2),
        (worker(**ENDING), 2),
        (phase("Failed"), 0),
        (worker(way="nomination"), 0),
        (worker(mode="preferred"), 0),
        (worker(podset=""), 0),
    ],
    ids=["gated", "ending", "ended", "nominated", "preferred", "not of Kueue"],
)
def test_a_pod_counts_until_kueue_no_longer_reads_its_index(document: Any, group: int) -> None:
    _, found = known(document)
    assert found.group(GANG) == group
    assert found.group(GangId("another")) == 0


def of_workload(name: str = "one") -> Any:
    """A pod that Kueue has admitted."""
    return worker(annotations=worker()["metadata"]["annotations"] | {KUEUE_WORKLOAD: name})


def test_a_workload_has_old_pods_while_some_end_and_none_runs() -> None:
    gated, running = of_workload(), of_workload()
    running["spec"] = running["spec"] | {"nodeName": "n1"}
    ending = copy.deepcopy(running)
    ending["metadata"] |= ENDING
    for pods, is_old in (
        ([gated], False),
        ([running], False),
        ([ending], True),
        ([ending, gated], True),
        ([ending, running, gated], False),
    ):
        store, found = known()
        for at, each in enumerate(pods):
            store.tell(Changed(("jobs", f"train-{at}"), parse(each)))
        namespace = gated["metadata"]["namespace"]
        assert found.has_old_pods(namespace, "one") is is_old
        assert found.has_old_pods(namespace, "another") is False
        store.tell(Changed(("jobs", "train-9"), parse(worker(**ENDING))))
        assert found.has_old_pods(namespace, "") is False, "it has no Workload"
        store.tell(Listed({}))
        assert found.has_old_pods(namespace, "one") is False
    assert known(synced=False)[1].has_old_pods("jobs", "one") is None


def test_a_job_has_no_pods_once_they_are_gone_or_a_new_list_lacks_them() -> None:
    store, found = known(worker())
    store.tell(Removed(KEY, parse(worker())))
    assert found.group(GANG) == 0
    store.tell(Changed(KEY, parse(worker())))
    store.tell(Listed({}))
    assert found.group(GANG) == 0


def test_before_the_first_list_nothing_is_known() -> None:
    assert known(synced=False)[1].group(GANG) is None
