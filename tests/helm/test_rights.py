"""What the chart's roles allow is what the programs do, and no more."""

import re

import pytest

from master.controllers.names import BY_DEFAULT, NAMES
from master.controllers.topologies import FORMATS
from master.inspection.rights import (
    CERTIFICATES,
    GPU_QUOTA,
    PARTS,
    PLACEMENT,
    VOLCANO_CONFIG,
    rights,
)
from master.kube.dra.taint_rules import DEVICE_TAINT_RULES
from master.kube.schedulers.node_features import NODE_FEATURES
from master.kube.schedulers.topologies import PUBLISHED_TOPOLOGIES
from tests.helm.chart import NAMESPACE, Allowed, allowed, cases, golden
from topo.gangs.annotation_keys import ADMISSION_GATED_BY, HELD_KINDS, AnnotationKeys
from topo.publish import gpu_annotations
from topo.publish.node_labels import every_key, label_keys

INSTALLED = sorted(set(cases()) - {"off"})
MASTER = "topo-master"
TOPOLOGIES = {*FORMATS, "node-features"}
SUSPICION = {"node-taints", "node-conditions", "hypernode-annotations"}
REQUESTS = {"provisioning", "kueue-workloads"}


@pytest.mark.parametrize("case", INSTALLED)
def test_no_rule_has_a_wildcard(case: str) -> None:
    for each in golden(case):
        for rule in each.get("rules", ()):
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "pods/exec" not in rule["resources"]
            if "secrets" in rule["resources"]:
                assert rule["resourceNames"] == ["topo-master-admission"]
                assert {*rule["verbs"]} <= {"get", "patch"}


@pytest.mark.parametrize(
    ("case", "off"),
    [
        ("vendor", {GPU_QUOTA, "pod-groups", "device-taints"} | SUSPICION | REQUESTS | TOPOLOGIES),
        ("podgroups", {GPU_QUOTA, "kueue-workloads"} | TOPOLOGIES),
        ("kueue", {GPU_QUOTA, "pod-groups", "device-taints", "provisioning"} | SUSPICION),
        (
            "placement-cert-manager",
            {CERTIFICATES, GPU_QUOTA, "pod-groups", "device-taints"}
            | SUSPICION
            | REQUESTS
            | TOPOLOGIES,
        ),
        (
            "extender",
            {PLACEMENT, CERTIFICATES, VOLCANO_CONFIG} | {*NAMES} - {*BY_DEFAULT},
        ),
        (
            "nvlink",
            {PLACEMENT, CERTIFICATES, VOLCANO_CONFIG, GPU_QUOTA} | {*NAMES} - {"labels", "events"},
        ),
    ],
)
def test_the_masters_roles_are_the_calls_that_masters_make(case: str, off: set[str]) -> None:
    """`topo doctor` asks for the same: whoever adds a call of the master adds it to both."""
    made = {
        Allowed(right.namespace(NAMESPACE), right.group, right.resource.plural, verb, right.name)
        for right in rights(PARTS - off)
        for verb in right.verbs
    }
    assert allowed(case, MASTER) == made


@pytest.mark.parametrize("case", INSTALLED)
def test_a_worker_may_do_nothing_in_the_cluster(case: str) -> None:
    assert allowed(case, "topo-worker") == set()


@pytest.mark.parametrize("case", INSTALLED)
def test_a_clean_up_takes_away_what_masters_write_and_reads_nothing_else(case: str) -> None:
    """Each of its rules is used by an uninstall: `e2e/kubernetes/test_lifecycle.py`."""
    made = {(each.resource, each.verb, each.name) for each in allowed(case, "topo-master-cleanup")}
    gates = {
        ("mutatingwebhookconfigurations", "delete", "topo-master-admission"),
        ("pods", "list", ""),
        ("pods", "patch", ""),
    }
    labelled_kinds = (DEVICE_TAINT_RULES, *PUBLISHED_TOPOLOGIES, NODE_FEATURES)
    by_label = {each.plural for each in labelled_kinds}
    labelled = {(plural, verb, "") for plural in by_label for verb in ("list", "delete")}
    assert labelled <= made
    held = {(plural, verb, "") for plural in HELD_KINDS.values() for verb in ("list", "patch")}
    assert held <= made
    assert made - gates - labelled - held == {
        ("nodes", "list", ""),
        ("nodes", "patch", ""),
        ("nodes/status", "patch", ""),
        ("hypernodes", "list", ""),
        ("hypernodes", "delete", ""),
        ("configmaps", "list", ""),
        ("configmaps", "delete", ""),
        ("leases", "create", ""),
        *(("leases", verb, MASTER) for verb in ("get", "update", "delete")),
    }
    places_gangs = Allowed("", "", "pods", "patch", "") in allowed(case, MASTER)
    assert made & gates == (gates if places_gangs else set())


ALWAYS_THERE = {"operation", "resource", "userInfo"}
"""Of a request of admission: API servers leave other keys out where they have no value."""


@pytest.mark.parametrize("case", INSTALLED)
def test_no_expression_of_a_policy_ends_at_a_key_that_a_request_lacks(case: str) -> None:
    """The caller would read "no such key" instead of the message, and a master's own write fail."""
    policies = [each for each in golden(case) if each["kind"] == "ValidatingAdmissionPolicy"]
    assert policies
    for policy in policies:
        spec = policy["spec"]
        for rule in (*spec["variables"], *spec["validations"], *spec["matchConditions"]):
            asked = set(re.findall(r"\brequest\.(\w+)", rule["expression"]))
            assert asked <= ALWAYS_THERE, rule
            rooted = re.findall(r"dyn\(((?:o|oldO)bject\.\w+)\)", rule["expression"])
            assert set(rooted) <= {"object.metadata", "oldObject.metadata"}, rule
        assert all(rule["message"].startswith("topo-master ") for rule in spec["validations"])


def test_the_policy_lets_masters_take_their_own_name_alone_from_who_holds_a_job() -> None:
    (rules_,) = (
        each["spec"]["validations"]
        for each in golden("kueue")
        if each["metadata"]["name"] == "topo-master-objects" and "validations" in each["spec"]
    )
    (rule,) = (each for each in rules_ if ADMISSION_GATED_BY in each["message"])
    name = AnnotationKeys("metax-tech.com").whole_groups
    assert rule["message"].endswith(f"of a job but {name}")
    assert f"'{name}' in variables.oldHolders" in rule["expression"]


def test_the_policy_names_the_labels_and_annotations_that_masters_write_on_nodes() -> None:
    policies = {
        each["metadata"]["name"]: each["spec"]["validations"]
        for each in golden("vendor")
        if each["kind"] == "ValidatingAdmissionPolicy"
    }
    domain = "metax-tech.com"
    labels, annotations = (rule["message"] for rule in policies["topo-master-nodes"][-2:])
    of_groups = label_keys(domain, {})
    written = {*of_groups.values(), f"{AnnotationKeys(domain).node_label_prefix}*"}
    assert {word for word in re.findall(r"[\w./*-]+", labels) if domain in word} == written
    rule = policies["topo-master-nodes"][-2]["expression"]
    assert set(re.findall(rf"'({domain}/[\w-]+)'", rule)) == every_key(of_groups)
    named = {word for word in re.findall(r"[\w./-]+", annotations) if domain in word}
    assert named == {*gpu_annotations.keys(domain)}
    rules = " ".join(rule["expression"] for rule in policies["topo-master-pods"])
    keys = AnnotationKeys(domain)
    for key in (keys.placement, keys.hold, keys.gate, keys.node_label_prefix):
        assert f"'{key}'" in rules
