"""The chart's roles and the doctor's list of rights are the same."""

from collections.abc import Iterator
from typing import Any

from master.inspection.rights import CONTROLLERS, rights
from tests.helm.chart import NAMESPACE, golden

_Right = tuple[str, str, str, str, str]
"""Namespace, API group, resource, verb, name of the object."""


def granted(case: str) -> set[_Right]:
    """What the roles of a rendering allow to the account of the master."""
    found = set[_Right]()
    for each in golden(case):
        if each["kind"] in ("Role", "ClusterRole") and each["metadata"]["name"] == "topo-master":
            namespace = each["metadata"].get("namespace", "")
            found.update((namespace, *right) for right in _flat(each["rules"]))
    return found


def _flat(rules: list[dict[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        yield group, resource, verb, name


def test_the_chart_grants_exactly_what_the_doctor_looks_for() -> None:
    """Whoever adds a call of the master adds it to both."""
    wanted = {
        (right.namespace(NAMESPACE), right.group, right.resource.plural, verb, right.name)
        for right in rights(CONTROLLERS)
        for verb in right.verbs
    }
    assert granted("vendor") == wanted


def test_no_right_is_a_wildcard() -> None:
    assert not [right for right in granted("vendor") if "*" in right]
