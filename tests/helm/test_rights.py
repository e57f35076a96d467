"""What the chart's roles allow is what the programs do, and no more."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from master.inspection.rights import rights
from tests.helm.chart import NAMESPACE, cases, golden

INSTALLED = sorted(set(cases()) - {"off"})
MASTER = "topo-master"


class Allowed(NamedTuple):
    """One verb on one kind of object: in a namespace, else in all; of one object, else of all."""

    namespace: str
    group: str
    resource: str
    verb: str
    name: str


def rules(found: list[dict[str, Any]], account: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rules that bind an account, each with the namespace that it is good in."""
    for each in found:
        if each["kind"] not in {"ClusterRoleBinding", "RoleBinding"}:
            continue
        if account not in {subject["name"] for subject in each["subjects"]}:
            continue
        kind, name = each["roleRef"]["kind"], each["roleRef"]["name"]
        namespace = each["metadata"].get("namespace", "")
        (role,) = (
            role
            for role in found
            if (role["kind"], role["metadata"]["name"]) == (kind, name)
            and role["metadata"].get("namespace", "") == namespace
        )
        for rule in role["rules"]:
            yield namespace, rule


def allowed(case: str, account: str) -> set[Allowed]:
    """What the account may do."""
    return {
        Allowed(namespace, group, resource, verb, name)
        for namespace, rule in rules(golden(case), account)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


@pytest.mark.parametrize("case", INSTALLED)
def test_no_rule_has_a_wildcard(case: str) -> None:
    for each in golden(case):
        for rule in each.get("rules", ()):
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert not {"secrets", "pods/exec"} & set(rule["resources"])


def test_the_masters_roles_are_the_calls_that_masters_make() -> None:
    """`topo doctor` asks for the same: whoever adds a call of the master adds it to both."""
    made = {
        Allowed(right.namespace(NAMESPACE), right.group, right.resource.plural, verb, right.name)
        for right in rights()
        for verb in right.verbs
    }
    assert allowed("vendor", MASTER) == made


@pytest.mark.parametrize("case", INSTALLED)
def test_a_worker_may_do_nothing_in_the_cluster(case: str) -> None:
    assert allowed(case, "topo-worker") == set()


@pytest.mark.parametrize("case", INSTALLED)
def test_a_clean_up_takes_away_what_masters_write_and_reads_nothing_else(case: str) -> None:
    """Each of its rules is used by an uninstall: `e2e/kubernetes/test_release_life.py`."""
    made = {(each.resource, each.verb, each.name) for each in allowed(case, "topo-master-cleanup")}
    assert made == {
        ("nodes", "list", ""),
        ("nodes", "patch", ""),
        ("hypernodes", "list", ""),
        ("hypernodes", "delete", ""),
        ("configmaps", "list", ""),
        ("configmaps", "delete", ""),
        ("leases", "create", ""),
        *(("leases", verb, MASTER) for verb in ("get", "update", "delete")),
    }
