"""Documents as a master answers them, made for the tests of the command line."""

from typing import Any


def node(name: str, status: str = "Ready", *reasons: tuple[str, str], gpus: int = 8) -> Any:
    """A leaf of `/v1/topology`."""
    return {
        "name": name,
        "kind": "node",
        "status": status,
        "reasons": [{"code": code, "text": text} for code, text in reasons],
        "gpus": gpus,
    }


def group(name: str, kind: str, children: list[Any], *reasons: tuple[str, str]) -> Any:
    """A group of `/v1/topology` with the counts of its children."""
    leaves = [child["capacity"] for child in children if child["kind"] != "node"] + [
        {"nodes": 1, "ready": child["status"] == "Ready", "gpus": child["gpus"]}
        for child in children
        if child["kind"] == "node"
    ]
    return {
        "name": name,
        "kind": kind,
        "tier": 1 if all(child["kind"] == "node" for child in children) else 2,
        "path": [name],
        "status": "NotReady" if reasons else "Ready",
        "reasons": [{"code": code, "text": text} for code, text in reasons],
        "expected": 2,
        "source": "cluster-manager" if kind == "switchbox" else "workers",
        "capacity": {key: sum(leaf[key] for leaf in leaves) for key in ("nodes", "ready", "gpus")},
        "child": children,
    }


def source(name: str, state: str = "ok", age_s: float | None = 1.2, **more: Any) -> Any:
    """The state of one source."""
    return {
        "source": name,
        "state": state,
        "age_s": age_s,
        "failing_s": None,
        "trouble": "",
        "fix": "",
        "warnings": [],
        **more,
    }


def healthy() -> Any:
    """One switchbox of two dragonflies of two nodes, all Ready."""
    return {
        "generation": 12,
        "mode": "switchbox",
        "restored_age_s": None,
        "groups": [
            group(
                "switchbox-sample1",
                "switchbox",
                [
                    group("dragonfly-0a1b2c3d", "dragonfly", [node("node-1"), node("node-2")]),
                    group("dragonfly-4e5f6a7b", "dragonfly", [node("node-3"), node("node-4")]),
                ],
            )
        ],
        "unplaced": [],
        "conflicts": [],
        "unjoined": [],
        "sources": [source("cluster-manager"), source("workers", age_s=0.34)],
    }


CUT = ("link-down", "the link to node-4 is down on this side")


def troubled() -> Any:
    """The same after a cut, with everything else that can be wrong."""
    document = healthy()
    lower = group(
        "dragonfly-4e5f6a7b",
        "dragonfly",
        [node("node-3", "NotReady", CUT), node("node-4")],
        ("child-not-ready", "not ready: node-3"),
    )
    box = group(
        "switchbox-sample1",
        "switchbox",
        [document["groups"][0]["child"][0], lower],
        ("child-not-ready", "not ready: dragonfly-4e5f6a7b"),
    )
    alone = node(
        "node-9",
        "NotReady",
        ("worker-stale", "its worker is stale: no report within 3 beats (30 s)"),
        gpus=0,
    )
    return {
        **document,
        "generation": 13,
        "restored_age_s": 75.0,
        "groups": [box],
        "unplaced": [{**alone, "reason": {"code": "no-peer", "text": "it sees no peer"}}],
        "conflicts": [
            {
                "code": "cloned-server-uuid",
                "subjects": ["node-7", "node-8"],
                "text": "node-7 and node-8 report one server UUID",
                "fix": "give one of them a UUID of its own",
            }
        ],
        "unjoined": [
            {
                "id": "machine-77",
                "names": {"hostname": "rack4-u12"},
                "group": ["switchbox-sample1"],
                "text": "no node has one of its names",
            }
        ],
        "sources": [
            source("cluster-manager", "failing", 95.0, failing_s=61.0, trouble="HTTP 500"),
            source("config-file", "waiting", None),
            source("workers", age_s=200000.0),
        ],
    }


def _links(row: int) -> list[Any]:
    codes = [["X", "MX"], ["MX", "X"]]
    kinds = {"X": "X", "MX": "MX", "PIX": "PIX", "SYS": "SYS"}
    cells = [*codes[row], "PIX" if row == 0 else "SYS"]
    return [{"kind": kinds[code], "code": code, "count": 0} for code in cells]


def detail() -> Any:
    """What the worker of node-3 said, with one of everything."""
    return {
        "stated": [
            {"source": "cluster-manager", "path": ["box-1", "fly-2"]},
            {"source": "cluster-nodes", "path": ["row-1"]},
        ],
        "identity": {
            "name": "node-3",
            "boot_id": "b-1",
            "hostname": "node-3",
            "internal_ip": "10.0.0.3",
            "provider_id": "",
            "system_uuid": "4c4c4544",
        },
        "gpus": [
            {
                "index": 0,
                "uuid": "GPU-aa",
                "bdf": "0000:0f:00.0",
                "model": "MXC500",
                "memory_bytes": 64 << 30,
                "numa": 0,
                "healthy": True,
                "trouble": "",
            },
            {
                "index": 1,
                "uuid": None,
                "bdf": None,
                "model": None,
                "memory_bytes": None,
                "numa": None,
                "healthy": False,
                "trouble": "unavailable: ECC",
            },
        ],
        "matrix": {
            "gpus": ["GPU0", "GPU1"],
            "nics": ["NIC0"],
            "links": [_links(0), _links(1)],
            "numa": [0, 1],
            "cpus": ["0-31", "32-63"],
            "unknown_codes": 0,
        },
        "ports": [
            {"gpu": 0, "port": 0, "state": "up"},
            {"gpu": 0, "port": 1, "state": "unused"},
            {"gpu": 0, "port": 2, "state": "up", "trouble": "degraded: 1 GB/s, its siblings 26"},
            {"gpu": 1, "port": 0, "state": "down", "trouble": "no signal"},
        ],
        "peers": {
            "local": "uuid-3",
            "remotes": [
                {"slot": 1, "uuid": "uuid-4", "connected": False},
                {"slot": 2, "uuid": "uuid-5", "connected": None},
            ],
        },
        "fabrics": [
            {
                "gpu": 0,
                "state": "Completed",
                "status": "Success",
                "cluster_uuid": "c-1",
                "clique": 7,
                "healthy": True,
                "rack": "r9",
                "tray": "4",
            }
        ],
        "nics": [
            {
                "hca": "mlx5_0",
                "port": 1,
                "up": True,
                "state": "ACTIVE",
                "rate_gbps": 400.0,
                "link_layer": "InfiniBand",
                "numa": 0,
                "node_guid": "ab:cd",
            },
            {"hca": "mlx5_1", "port": 1, "up": False},
        ],
        "probes": [
            {"probe": "mxsml", "state": "ok", "detail": ""},
            {"probe": "nvml", "state": "absent", "detail": "no libnvidia-ml.so.1"},
            {"probe": "mx-smi", "state": "timed-out", "detail": "after 5 s"},
        ],
        "neighbours": ["node-4"],
        "wires": [
            {
                "slot": 1,
                "server": "uuid-4",
                "nodes": ["node-4"],
                "state": "down",
                "text": "remote 1 (server uuid-4) is named but not connected",
            },
            {
                "slot": 2,
                "server": "uuid-5",
                "nodes": [],
                "state": "unconfirmed",
                "text": "no worker has reported from that server",
            },
        ],
        "stale": False,
        "beat_age_s": 0.7,
    }


def inside() -> Any:
    """The answer for `?node=node-3`."""
    document = troubled()
    box = document["groups"][0]
    lower = {**box["child"][1], "child": box["child"][1]["child"][:1]}
    conflict: Any = {
        "code": "suspect-link",
        "subjects": ["node-3"],
        "text": "seen from one side only",
    }
    conflict["since_s"] = 312.0
    lower |= {"confirmed_by": ["cluster-manager"]}
    return {
        **document,
        "groups": [{**box, "child": [lower]}],
        "conflicts": [*document["conflicts"], conflict],
        "node": detail(),
    }


def history() -> Any:
    """Two moments that are kept."""
    first = {"at": "2026-11-22T13:58:02.511Z", "generation": 6, "run": "5e0c21af", "moments": 1}
    counts = {"node-added": 2, "node-status": 4, "group-status": 3}
    second = {**first, "at": "2026-11-22T14:02:11.020Z", "generation": 8, "changes": counts}
    return {"now": "2026-11-22T14:05:00.000Z", "moments": [{**first, "changes": {}}, second]}


def changes(generation: int = 13) -> Any:
    """What moved from the healthy to the troubled document, in part."""
    return [
        {
            "generation": generation,
            "what": "node-status",
            "subject": "node-3",
            "before": "Ready",
            "after": "NotReady",
            "why": CUT[1],
        },
        {
            "generation": generation,
            "what": "node-moved",
            "subject": "node-9",
            "before": "switchbox-sample1/dragonfly-x",
            "after": "",
            "why": "it sees no peer",
        },
        {
            "generation": generation,
            "what": "conflict-added",
            "subject": "node-7, node-8",
            "before": "",
            "after": "cloned-server-uuid",
            "why": "",
        },
    ]


def planned(
    index: int,
    domain: list[str],
    *nodes: tuple[str, int],
    kind: str = "dragonfly",
    tail: bool = False,
) -> Any:
    """One group of pods in one domain."""
    return {
        "index": index,
        "tail": tail,
        "domains": [{"kind": kind, "name": domain[-1], "path": domain}],
        "nodes": [{"name": name, "pods": pods} for name, pods in nodes],
    }


BOX = ["switchbox-sample1"]
LOWER = [*BOX, "dragonfly-0a1b2c3d"]
UPPER = [*BOX, "dragonfly-4e5f6a7b"]


def placement() -> Any:
    """A plan for 4 pods of 4 GPUs in groups of 12: a whole group, and a tail in another place."""
    names = ("split_groups", "top_groups", "tier1_groups", "whole_groups_left")
    return {
        "feasible": True,
        "generation": 12,
        "mode": "required",
        "gpu_type": "MXC500",
        "used_reserve": False,
        "groups": [
            planned(0, LOWER, ("node-1", 1), ("node-2", 2)),
            planned(1, UPPER, ("node-3", 1), tail=True),
        ],
        "objective": {
            **dict(zip(names, (0, 1, 2, 3), strict=True)),
            "free_profile_top": {"4": -1},
            "free_profile_tier1": {"3": -1, "2": -1, "1": 1},
            "newly_broken": 1,
            "penalty": 0,
        },
        "bounds": {**dict(zip(names, (0, 1, 2, 4), strict=True)), "penalty": 0},
        "certified": {**dict.fromkeys(names[:3], True), "whole_groups_left": False},
        "explanation": ["1 switchbox is the fewest: the largest has 5 free slots, 4 are needed"],
        "capacity": [
            room(BOX, 28, 16),
            room(LOWER, 16, 12),
            room(UPPER, 12, 4),
        ],
        "hold": None,
    }


def room(path: list[str], free: int, taken: int) -> Any:
    """GPUs under one group of the tree."""
    return {"path": path, "kind": "", "tier": 1, "free_gpus": free, "taken_gpus": taken}


def refusal() -> Any:
    """Two groups are wanted, one is there."""
    return {
        "feasible": False,
        "generation": 12,
        "mode": "required",
        "failed": "groups",
        "shortfall": {"needed": 2, "available": 1, "missing": 1},
        "would_fit": [
            {"kind": "fewer-pods", "text": "3 pods fit now"},
            {"kind": "mode", "text": "mode preferred fits, with 1 group split"},
        ],
        "explanation": ["dragonfly-4e5f6a7b has 2 free slots, a group needs 3"],
    }


def held(name: str = "h-1", **more: Any) -> Any:
    """A placement that is reserved for ten minutes, as a list of holds tells it."""
    return {
        "id": name,
        "key": "job-42",
        "namespace": "team-a",
        "state": "held",
        "hold_s": 600.0,
        "expires_in_s": 600.0,
        "age_s": 0.0,
        "generation": 12,
        "mode": "required",
        "gpu_type": "MXC500",
        "pods": 4,
        "gpus_per_pod": 4,
        "group_size": 12,
        "gpus": 16,
        "nodes": 3,
        **more,
    }


def hold(name: str = "h-1") -> Any:
    """The same with all that is told of one hold."""
    lost = [{"name": "node-2", "why": "node node-2 is cordoned"}]
    return {**held(name), "groups": placement()["groups"], "lost": lost}


def fragmentation() -> Any:
    """Two dragonflies of 64 GPUs: one whole, one broken."""
    row = {"domains": 2, "pristine": 1, "partly_used": 1, "full": 0, "closed": 0}
    box = {**row, "domains": 1, "pristine": 0}
    return {
        "generation": 12,
        "types": [
            {
                "gpu_type": "MXC500",
                "nodes": 16,
                "open_nodes": 15,
                "gpus": 128,
                "free_gpus": 96,
                "node_gpus": 8,
                "group_gpus": 64,
                "whole_groups": 1,
                "integrity": 0.6667,
                "unusable_gpus": 14.4,
                "tiers": [
                    {"tier": 2, "kind": "switchbox", **box, "whole_groups": 1, "profile": [[1, 1]]},
                    {"tier": 1, "kind": "dragonfly", **row, "whole_groups": 1, "profile": [[1, 1]]},
                ],
                "largest": [
                    {"group_size": 8, "gpus_per_pod": 8, "pods": 12, "gpus": 96, "tier": 1},
                    {"group_size": 64, "gpus_per_pod": 8, "pods": 12, "gpus": 96, "tier": 1},
                    {"group_size": 128, "gpus_per_pod": 8, "pods": 0, "gpus": 0, "tier": 2},
                    {"group_size": 256, "gpus_per_pod": 8, "pods": 0, "gpus": 0, "tier": None},
                    {"group_size": 512, "gpus_per_pod": 8, "pods": 0, "gpus": 0, "tier": None},
                ],
            }
        ],
        "mix": [],
    }


def sharing() -> Any:
    """Four cards that pods share, on two nodes of two families, beside the dragonflies."""
    shares = {"shares": 16, "cores": 100, "memory": 65536}
    left = {"shares": 15, "cores": 40, "memory": 61440}
    manager = {"shares": 0, "cores": 150, "memory": 224}
    one = {"nodes": 1, "cards": 2, "idle": 1}
    families = [
        {"family": "gpu-manager", **one, "largest": {**manager, "cores": 100, "memory": 120}},
        {"family": "metax-sgpu", **one, "largest": shares},
    ]
    amounts = (
        dict.fromkeys(("total", "used", "free"), manager),
        dict.fromkeys(("total", "used", "free"), left),
    )
    shared = [{**family, **of} for family, of in zip(families, amounts, strict=True)]
    return {**fragmentation(), "shared": shared}


def with_cards() -> Any:
    """The answer for `?node=node-4`, whose cards pods share."""
    total, used = {"shares": 16, "cores": 100, "memory": 65536}, {"shares": 1, "cores": 60}
    card = {"family": "metax-sgpu", "model": "MXC500", "mode": "", "healthy": True}
    first = {"id": "GPU-0", **card, "total": total, "used": {**used, "memory": 4096}}
    first["free"] = {"shares": 15, "cores": 40, "memory": 61440}
    nothing = {"shares": 0, "cores": 0, "memory": 0}
    second = {**first, "id": "GPU-1", "healthy": False, "used": nothing, "free": nothing}
    leaf = {**node("node-4", gpus=0), "cards": [first, second]}
    entry = {**leaf, "reason": {"code": "no-peer", "text": "it sees no peer"}}
    return {"generation": 3, "groups": [], "unplaced": [entry], "node": None}
