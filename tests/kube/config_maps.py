"""An API server that has ConfigMaps, with their limits, and fails as a test says."""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from master.kube.client import Call
from master.kube.errors import KubeError

DOMAIN = "metax-tech.com"
MAPS = "/api/v1/namespaces/topo/configmaps"
MIB = 1 << 20
"""What the values of a ConfigMap may have; kubernetes.io/docs/concepts/configuration/configmap."""
ETCD_BYTES = 1536 * 1024
"""What etcd takes in one request; etcd.io/docs/v3.5/dev-guide/limit."""


@dataclass
class Maps:
    """An API server that has ConfigMaps; `fails` raises instead of what was asked."""

    stored: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[Call] = field(default_factory=list)
    fails: Callable[[Call], None] = lambda _: None

    async def call(self, call: Call) -> bytes:
        """See `KubeClient.call`."""
        await asyncio.sleep(0)
        self.asked.append(call)
        self.fails(call)
        match call.method:
            case "GET":
                return self._page(call)
            case "POST":
                return self._create(orjson.loads(call.body or b""))
        name = call.path.removeprefix(MAPS + "/")
        if name not in self.stored:
            raise KubeError("there is none", status=404)
        if call.method == "DELETE":
            del self.stored[name]
        else:
            labels = orjson.loads(call.body or b"")["metadata"]["labels"]
            self.stored[name]["metadata"]["labels"] |= labels
        return b"{}"

    def _create(self, made: dict[str, Any]) -> bytes:
        name, values = made["metadata"]["name"], made["binaryData"].values()
        if name in self.stored:
            raise KubeError("it is there", status=409, reason="AlreadyExists")
        sizes = [len(base64.b64decode(value, validate=True)) for value in values]
        assert sum(sizes) <= MIB
        assert len(orjson.dumps(made)) <= ETCD_BYTES
        self.stored[name] = made
        return b"{}"

    def _page(self, call: Call) -> bytes:
        managed, parts = call.query["labelSelector"].split(",", 1)
        assert managed == f"{DOMAIN}/managed-by=topo-master"
        wanted = parts.removeprefix(f"{DOMAIN}/state in (").removesuffix(")").split(",")
        found = [m for m in self.stored.values() if self.part_of(m) in wanted]
        first, limit = int(call.query.get("continue", 0)), int(call.query["limit"])
        more = {"continue": str(first + limit)} if len(found) > first + limit else {}
        head = {"kind": "ConfigMapList", "metadata": {"resourceVersion": "1", **more}}
        return orjson.dumps({**head, "items": found[first : first + limit]})

    def part_of(self, stored: dict[str, Any]) -> str:
        """Which part a ConfigMap is of."""
        return str(stored["metadata"]["labels"][f"{DOMAIN}/state"])

    def names(self, part: str) -> list[str]:
        """The ConfigMaps of a part."""
        return [name for name, stored in self.stored.items() if self.part_of(stored) == part]

    def writes(self) -> list[Call]:
        """What was asked beside reading, since the last call."""
        found = [call for call in self.asked if call.method != "GET"]
        self.asked.clear()
        return found
