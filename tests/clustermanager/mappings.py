"""Mappings of the manual, and the answers that they are for."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

MANUAL = (Path(__file__).parents[2] / "docs" / "cluster-manager.md").read_text()


def block(language: str, number: int = 0) -> str:
    """A fenced block of the manual."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", MANUAL, re.DOTALL | re.MULTILINE)
    return str(blocks[number])


INVENTORY: dict[str, Any] = json.loads(block("json"))


MAPPING: dict[str, Any] = yaml.safe_load(block("yaml"))


LOGIN_MAPPING: dict[str, Any] = {
    "version": 1,
    "auth": {
        "kind": "login",
        "path": "/api/session",
        "username_field": "user",
        "password_field": "pass",
        "token": "session.key",
        "header": "X-Session",
        "prefix": "",
    },
    "topology": {
        "path": "/api/all",
        "cursor": "to_string(at)",
        "machines": [{"each": "hosts", "id": "sn", "names": {"server_uuid": "uuid"}}],
    },
    "events": {
        "path": "/api/changes",
        "cursor_parameter": "since",
        "cursor": "to_string(at)",
        "each": "log[].{type: 'machine-removed', machine_id: gone,"
        " after: to_string(from), cursor: to_string(to)}",
    },
    "sample": {
        "login": {"session": {"key": "example"}},
        "topology": {"at": 4, "hosts": [{"sn": "a", "uuid": "u-a"}]},
        "events": {"at": 5, "log": [{"gone": "a", "from": 4, "to": 5}]},
        "events_asked": "4",
    },
}
