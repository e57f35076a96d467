"""`python -m bench.kubernetes.node_list_pages NODES`: an API server with a fixed list of nodes.

Of a node's 12 kB most is what nobody reads: images, managed fields, annotations.
"""

import asyncio
import sys
from typing import Any

import orjson
from aiohttp import web

from bench.processes import LOOPBACK
from master.kube.reading import PAGE

_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_TIME = "2026-01-01T00:00:00Z"


def node(number: int) -> dict[str, Any]:
    """A GPU node as a kubelet and its friends leave it."""
    name, digest = f"node-{number}", "a" * 64
    image = "registry.example/team/project/image"
    resources = {"cpu": "128", "memory": "1056Gi", "metax-tech.com/gpu": "8", "pods": "110"}
    fields: dict[str, Any] = {f"f:key-{k}": {} for k in range(100)}
    return {
        "metadata": {
            "name": name,
            "uid": f"00000000-0000-0000-0000-{number:012}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": _TIME,
            "labels": {f"label.example/{k}": f"value-{k}" for k in range(20)},
            "annotations": {f"annotation.example/{k}": "x" * 40 for k in range(10)},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:metadata": fields}}],
        },
        "spec": {"providerID": f"provider://{name}", "podCIDR": "10.0.0.0/24"},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [
                {
                    "type": kind,
                    "status": str(kind == "Ready"),
                    "lastHeartbeatTime": _TIME,
                    "lastTransitionTime": _TIME,
                    "reason": f"KubeletHas{kind}",
                    "message": "kubelet is posting this status",
                }
                for kind in _CONDITIONS
            ],
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {"systemUUID": f"uuid-{number}", "kernelVersion": "6.6"},
            "images": [
                {"names": [f"{image}-{k}@sha256:{digest}", f"{image}-{k}:v1"], "sizeBytes": 1 << 30}
                for k in range(40)
            ],
        },
    }


def pages(nodes: int) -> list[bytes]:
    """The pages of the list; the token of one is its number."""
    starts = range(0, nodes, PAGE)
    return [
        orjson.dumps(
            {
                "kind": "NodeList",
                "metadata": {
                    "resourceVersion": str(nodes),
                    "continue": str(page + 1) if page + 1 < len(starts) else "",
                },
                "items": [node(each) for each in range(start, min(nodes, start + PAGE))],
            }
        )
        for page, start in enumerate(starts)
    ]


async def serve(nodes: int) -> None:
    """Serves until it is killed; the port is named on the standard output."""
    made = pages(nodes)

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            await asyncio.Event().wait()
        return web.Response(body=made[int(request.query.get("continue") or 0)])

    app = web.Application()
    app.router.add_get("/api/v1/nodes", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0).start()
    port = runner.addresses[0][1]
    line = {"event": "listening", "site": "api", "port": port}
    sys.stdout.write(orjson.dumps(line).decode() + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
