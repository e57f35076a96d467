"""A master over a small configured cluster, and calls that carry a token."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.master.world import Answer, Master, running

WRITER = "writer-token-1"
NODES = 4
"""Nodes in each dragonfly: `n<switchbox>-<dragonfly>-<node>`, eight GPUs each."""


@dataclass
class Caller:
    """Whoever calls the API, with or without a token."""

    master: Master
    token: str | None = WRITER

    async def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        """One POST of JSON, or of bytes as they are."""
        return await self._call("POST", path, body, headers)

    async def delete(self, path: str) -> Answer:
        """One DELETE."""
        return await self._call("DELETE", path, None, {})

    async def held(self, pods: int = NODES, hold_s: float = 60, **more: Any) -> Any:
        """A hold's answer, which must be given."""
        body = {"pods": pods, "gpus_per_pod": 8, "hold_s": hold_s, **more}
        answer = await self.post("/v1/holds", body)
        assert answer.status == 200, answer.json
        return answer.json

    async def holds(self) -> list[Any]:
        """All holds."""
        found: list[Any] = (await self.master.get("/v1/holds")).json["holds"]
        return found

    async def _call(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            named["Authorization"] = f"Bearer {self.token}"
        data = body if isinstance(body, bytes | None) else orjson.dumps(body)
        url = self.master.url + path
        async with self.master.session.request(method, url, data=data, headers=named) as answer:
            return Answer(answer.status, answer.headers, await answer.read())


def config(boxes: int = 2, flies: int = 2, nodes: int = NODES) -> str:
    """The config file of a cluster."""
    lines = ["group:"]
    for box in range(boxes):
        lines += [f"  - name: s{box}", "    kind: switchbox", "    child:"]
        for fly in range(flies):
            names = ", ".join(f"n{box}-{fly}-{node}" for node in range(nodes))
            lines += [f"      - name: d{box}-{fly}", "        kind: dragonfly"]
            lines += [f"        child: [{names}]"]
    return "\n".join(lines) + "\n"


@asynccontextmanager
async def placing(home: Path, *flags: str, text: str | None = None) -> AsyncIterator[Caller]:
    """A ready master whose files are in `home`; the caller may write."""
    (home / "nodegroup.yaml").write_text(text or config())
    (home / "writers").write_text(f"# who may hold\nops {WRITER}\n")
    files = (f"--config-file={home / 'nodegroup.yaml'}", f"--api-token-file={home / 'writers'}")
    async with running(*files, "--gpus-per-node=8", *flags) as master:
        await master.ready()
        yield Caller(master)


def nodes_of(answer: Any) -> list[str]:
    """The nodes of a plan, in its order."""
    return [node["name"] for group in answer["groups"] for node in group["nodes"]]
