"""`topo doctor` names the jobs that run on nodes with trouble."""

import json

import pytest

from tests.cli.conftest import FakeMaster, Topo


@pytest.mark.parametrize("is_told", [True, False])
def test_doctor_lists_the_jobs_of_a_finding_where_the_master_does(
    topo: Topo, fake_master: FakeMaster, *, is_told: bool
) -> None:
    """The tree, of which doctor judges, has no pods; a master of an earlier release tells none."""
    conflict = {"code": "links-suspected-together", "subjects": ["node-1"], "text": "down"}
    fake_master.document["conflicts"] = [conflict]
    jobs = ["train.a", "train.b"]
    finding = {"code": conflict["code"], "subjects": ["node-1"], "jobs": jobs}
    finding |= {"severity": "wrong", "subject": "node-1", "what": "down", "next_step": "look"}
    if is_told:
        document = json.dumps({"generation": 7, "findings": [finding]})
        fake_master.broken["/v1/findings"] = (200, document, {"Content-Type": "application/json"})
    shown = topo("doctor", "-o", "json")
    (found,) = json.loads(shown.stdout)["findings"]
    more = "; 2 jobs run there: train.a, train.b" if is_told else ""
    assert (found["what"], found.get("jobs", [])) == (f"down{more}", jobs * is_told)
