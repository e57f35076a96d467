"""The jobs of examples/, each applied as it stands."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.scheduling.admission_master import admission_master
from tests.e2e.scheduling.gang_master import document
from tests.e2e.scheduling.jobs import BATCH_JOBS, JOBS, WORDS, are_whole, bound, pods_of
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

FOLDER = Path(__file__).parents[3] / "examples" / "jobs"
EXAMPLES = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
OF_OTHER_CONTROLLERS = frozenset(
    {"jobset", "leaderworkerset", "statefulset", "deployment", "trainjob"}
)
"""They are applied where those controllers run: `tests/e2e/jobkinds`."""
OF_OPERATORS = frozenset({"raycluster", "rayjob", "pytorchjob", "mpijob"})
"""The same; those controllers are built for `make e2e-kinds` alone."""
EXCLUSIVE = {"jobset-exclusive", "leaderworkerset-exclusive"}
ELSEWHERE = {
    *("podgroup", "kueue", "plain-pods"),
    *(*OF_OTHER_CONTROLLERS, *OF_OPERATORS, *EXCLUSIVE),
}
"""They need what others have: `tests/e2e/podgroups`, `tests/e2e/kueue`, `tests/e2e/jobkinds`."""
NATIVE = "volcano-native"
"""Volcano places it, by HyperNodes that no master of this file writes."""
PLACES = {"Job batch/v1": BATCH_JOBS, "Job batch.volcano.sh/v1alpha1": JOBS}


def pods(job: Any) -> int:
    """How many pods the job has."""
    spec = job["spec"]
    return int(spec.get("completions") or sum(task["replicas"] for task in spec["tasks"]))


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - ELSEWHERE))
async def test_an_example_is_taken_as_it_stands_and_its_pairs_are_whole(
    cluster: Cluster, api: Api, world: World, tmp_path: Path, name: str
) -> None:
    """No field of it is unknown to the API server, and the webhook has nothing to warn of."""
    (job,) = yaml.safe_load_all(EXAMPLES[name].read_text())
    assert job["metadata"]["name"] == name
    (tmp_path / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
    async with admission_master(cluster, api, tmp_path):
        path = PLACES[f"{job['kind']} {job['apiVersion']}"]
        made = await api.call("POST", path, job, fieldValidation="Strict")
        assert WORDS.pods in str(made)
        assert WORDS.ungrouped not in str(made)
        if name == NATIVE:
            return
        await eventually(lambda: bound(api, name, pods(job)))
        nodes = [each.node for each in await pods_of(api, name)]
        assert are_whole(world, "dragonfly", nodes, 2)
        if name == "within-a-switchbox":
            assert are_whole(world, "switchbox", nodes, pods(job))


def test_the_list_of_examples_names_each_of_them() -> None:
    told = (FOLDER.parent / "README.md").read_text()
    files = sorted(path.relative_to(FOLDER.parent) for path in FOLDER.parent.rglob("*.yaml"))
    assert [path for path in files if f"]({path})" not in told] == []
