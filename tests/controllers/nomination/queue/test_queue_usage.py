"""What the pods of queues have, counted as they change, is what a count from nothing finds."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from master.controllers.nomination.queues.quota import AskedGpus
from master.controllers.nomination.queues.usage import QueueCounts
from master.kube.objects import PODS, parsed
from master.kube.schedulers.volcano import POD_GROUPS, QUEUES
from master.sources.kubernetes.pods import PodParser
from tests.controllers.nomination.objects import GPU, WORDS
from tests.kube.api_model import ApiModel
from tests.kube.model_store import ModelStore
from topo.gangs.annotation_keys import POD_GROUP
from topo.gangs.terms import Way
from topo.placement.job.policy import Policy

MOST = "200"
"""So much is asked for that the answer names what a queue has."""
NAMES = st.integers(0, 3)
STEPS = st.lists(st.tuples(st.sampled_from(["bind", "wait", "go", "move", "drop"]), NAMES, NAMES))


def put(api: ApiModel, resource: Any, name: str, **fields: Any) -> None:
    """Creates an object, or replaces it."""
    found = [key for key in api.objects if key[0].endswith(resource.plural) and key[1] == name]
    if found:
        api.remove(resource, name, "jobs")
    if fields:
        metadata = {"namespace": "jobs", **fields.pop("metadata", {})}
        api.add(resource, name, metadata=metadata, **fields)


def pod(group: int, node: str) -> dict[str, Any]:
    limits = {"resources": {"limits": {GPU: "8"}}}
    return {
        "metadata": {"annotations": {POD_GROUP: f"group-{group}"}},
        "spec": {"nodeName": node, "containers": [{"name": "main", **limits}]},
        "status": {"phase": "Pending"},
    }


@given(STEPS)
@example([("bind", 1, 2), ("move", 2, 3), ("wait", 1, 2), ("drop", 2, 3)])
def test_counts_by_change_are_those_from_nothing(steps: list[tuple[str, int, int]]) -> None:
    api = ApiModel()
    pods: Any = ModelStore(api, parsed(PODS, PodParser(Policy(), WORDS, Way.NOMINATION).parse))
    groups, queues = ModelStore(api, POD_GROUPS), ModelStore(api, QUEUES)
    for name in ("q0", "q1", "q2", "q3"):
        api.add(QUEUES, name, metadata={}, spec={"capability": {GPU: MOST}}, status={})

    def counts() -> QueueCounts:
        made = QueueCounts(queues, groups, lambda: 2 * int(MOST), weighted=True)
        pods.subscribe(made.follow_pods)
        return made

    kept = counts()
    for act, one, other in steps:
        if act in {"bind", "wait"}:
            put(api, PODS, f"pod-{one}", **pod(other, "n1" if act == "bind" else ""))
        elif act == "move":
            put(api, POD_GROUPS, f"group-{one}", spec={"queue": f"q{other}"}, status={})
        else:
            resource, name = (PODS, "pod") if act == "go" else (POD_GROUPS, "group")
            put(api, resource, f"{name}-{one}")
        asked = AskedGpus(gang="g", queue=f"q{other}", resource=GPU, gpus=int(MOST))
        assert kept.missing(asked) == counts().missing(asked)
