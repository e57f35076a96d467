"""Gangs as a master lists and shows them, made for the tests of the command line."""

from typing import Any


def waiting_gang() -> Any:
    """A gang that does not fit now, as a list of gangs tells it."""
    return {
        "id": "5f0c1b1e-0000-4000-8000-000000000001",
        "namespace": "training",
        "name": "pytorch-demo",
        "kind": "Job.batch.volcano.sh",
        "state": "no-room",
        "text": "1 group of 16 GPUs is missing",
        "would_fit": "node node-2 uncordoned",
        "ahead": 0,
        "priority": 100,
        "age_s": 72.0,
        "mode": "required",
        "within": None,
        "pods": 4,
        "gpus_per_pod": 8,
        "group_size": 16,
        "there": 4,
        "placed": 0,
        "bound": 0,
    }


def gang(**more: Any) -> Any:
    """A gang of four pods in two dragonflies, the last of which is not bound yet."""
    nodes = ("node-1", "node-2", "node-3", "node-4")
    groups = [
        {
            "index": index,
            "tail": False,
            "domains": [
                {"kind": "dragonfly", "name": name, "path": ["switchbox-sample1", name]},
            ],
            "nodes": [{"name": node, "pods": 1} for node in nodes[2 * index : 2 * index + 2]],
        }
        for index, name in enumerate(("dragonfly-0a1b2c3d", "dragonfly-4e5f6a7b"))
    ]
    members = [
        {
            "name": f"pytorch-demo-worker-{rank}",
            "rank": rank,
            "group": rank // 2,
            "node": node,
            "state": "open" if rank == 3 else "bound",
        }
        for rank, node in enumerate(nodes)
    ]
    return {
        **waiting_gang(),
        "state": "opened",
        "text": "its scheduler may bind it",
        "would_fit": "",
        "ahead": None,
        "placed": 4,
        "bound": 3,
        "members": members,
        "groups": groups,
        "history": [
            {
                "at": "2026-11-22T14:02:11.000Z",
                "state": "no-room",
                "text": "1 group of 16 GPUs is missing",
                "source": "pod",
            },
            {
                "at": "2026-11-22T14:09:40.125Z",
                "state": "opened",
                "text": "its scheduler may bind it",
                "source": "leader",
            },
        ],
        "history_from": "2026-11-22T14:05:00.000Z",
        **more,
    }
