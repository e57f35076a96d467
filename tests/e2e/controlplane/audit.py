"""What the API server was asked, and by whom, as its audit log says."""

import json
from pathlib import Path
from typing import Any, NamedTuple

_POD = "authentication.kubernetes.io/pod-name"


class Call(NamedTuple):
    """One call of a service account: what RBAC judges, and what came of it."""

    verb: str
    group: str
    resource: str
    """With its subresource, as in a role: `nodes/status`."""
    namespace: str
    name: str
    status: int
    user_agent: str
    path: str
    pod: str
    """The pod whose token it came with, empty where it was none's."""


def calls(log: Path, account: str) -> list[Call]:
    """The calls of a service account, given as `namespace:name`, in the order of their answers."""
    user = f"system:serviceaccount:{account}"
    return [
        _call(event)
        for line in log.read_text().splitlines(keepends=True)
        if line.endswith("\n") and (event := json.loads(line))["user"]["username"] == user
    ]


def _call(event: Any) -> Call:
    asked = event.get("objectRef", {})
    resource = asked.get("resource", "")
    return Call(
        event["verb"],
        asked.get("apiGroup", ""),
        f"{resource}/{asked['subresource']}" if "subresource" in asked else resource,
        asked.get("namespace", ""),
        asked.get("name", ""),
        event.get("responseStatus", {}).get("code", 0),
        event.get("userAgent", ""),
        event["requestURI"],
        event["user"].get("extra", {}).get(_POD, [""])[0],
    )
