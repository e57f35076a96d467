"""Simulated clusters by name or by size, and their nodegroup.yaml."""

import re
from typing import Any

from topo.cli.exit_codes import usage
from topo.model.nearest import did_you_mean
from topo.sim.worlds.presets import PRESET_NAMES, SimNode, World, preset, world

MAX_NODES = 10_000
_SIZE = re.compile(r"(\d{1,4})x(\d{1,4})x(\d{1,4})(?:x(\d{1,3}))?", re.ASCII)


def chosen(name: str) -> World:
    """Return the preset of that name, or a MetaX cluster of that size; raise `CliError`.

    A size is SWITCHBOXESxDRAGONFLIESxNODES, or with a fourth number GPUs per node (8 without);
    0 switchboxes leave the dragonflies on their own. Hosts are named as in the vendor's example.
    """
    if (found := preset(name)) is not None:
        return found
    size = _SIZE.fullmatch(name)
    if size is None:
        known = f"one of {', '.join(PRESET_NAMES)}, or a size such as 2x2x2"
        fix = did_you_mean(name, PRESET_NAMES, known)
        raise usage(f"no preset is called {name!r}", "WORLD", fix)
    boxes, flies, nodes = (int(number) for number in size.group(1, 2, 3))
    gpus = int(size.group(4) or 8)
    if not 1 <= max(boxes, 1) * flies * nodes <= MAX_NODES or not 1 <= gpus <= 32:
        raise usage(
            f"{name} is not a sensible size", "WORLD", f"1 to {MAX_NODES} nodes, 1 to 32 GPUs"
        )
    return world(boxes, flies, nodes, gpus, stem="sample")


def nodegroup(simulated: World) -> dict[str, Any]:
    """Return the body of a `nodegroup.yaml` with the true place of every host. O(nodes)."""
    roots: list[Any] = []
    groups: dict[tuple[str, ...], list[Any]] = {(): roots}
    for node in simulated.nodes:
        path: tuple[str, ...] = ()
        for kind, name in _groups(node):
            above, path = path, (*path, name)
            if path not in groups:
                groups[path] = []
                groups[above].append({"name": name, "kind": kind, "child": groups[path]})
        groups[path].append({"name": str(node.name), "kind": "node"})
    return {"group": roots}


def _groups(node: SimNode) -> list[tuple[str, str]]:
    """Return kind and name of the groups above a host, from the root down."""
    if node.fabric is not None:
        domain = f"nvlink-domain-{node.fabric.cluster_uuid[:8]}"
        clique = f"nvlink-clique-{node.fabric.cluster_uuid[:8]}-{node.fabric.clique}"
        return [("nvlink-domain", domain), ("nvlink-clique", clique)]
    if node.super_pod is not None:
        return [("superpod", f"superpod-{node.super_pod.number}")]
    stated = (("switchbox", node.switchbox), ("dragonfly", node.dragonfly))
    return [(kind, str(name)) for kind, name in stated if name is not None]
