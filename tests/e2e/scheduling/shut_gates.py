"""An API server that takes no gate off any pod for a while, so that a plan is written and waits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.e2e.controlplane.client import MERGE, Api, ApiError
from tests.e2e.scheduling.jobs import PODS
from tests.support.waiting import eventually

_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_SHUT = "gates-stay-shut"
_SHUT_WHERE = (
    "!has(oldObject.spec.schedulingGates) || "
    "(has(object.spec.schedulingGates) && "
    "object.spec.schedulingGates.size() == oldObject.spec.schedulingGates.size())"
)


@asynccontextmanager
async def gates_shut(api: Api) -> AsyncIterator[None]:
    """The API server takes no gate off any pod, by a rule of its own."""
    pods = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["pods"],
    }
    rule = {
        "matchConstraints": {"resourceRules": [pods]},
        "validations": [{"expression": _SHUT_WHERE, "message": "gates stay shut for a while"}],
    }
    binding = {"policyName": _SHUT, "validationActions": ["Deny"]}
    await api.create(_POLICIES, {"metadata": {"name": _SHUT}, "spec": rule})
    await api.create(_BINDINGS, {"metadata": {"name": _SHUT}, "spec": binding})
    theirs = {"name": "example.com/probe"}
    container = {"name": "main", "image": "alpine:3.19"}
    spec = {"schedulingGates": [theirs], "containers": [container]}
    await api.create(PODS, {"metadata": {"name": "probe"}, "spec": spec})

    async def is_in_force() -> bool:
        patch: dict[str, Any] = {"spec": {"schedulingGates": []}}
        try:
            await api.call("PATCH", f"{PODS}/probe", patch, content_type=MERGE, dryRun="All")
        except ApiError as refusal:
            return "gates stay shut" in str(refusal)
        return False

    await eventually(is_in_force)
    try:
        yield
    finally:
        for path in (f"{_BINDINGS}/{_SHUT}", f"{_POLICIES}/{_SHUT}", f"{PODS}/probe"):
            await api.delete(path)
