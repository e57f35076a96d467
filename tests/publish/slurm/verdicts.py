"""What slurmctld accepts of topology files, written from its answers and not from our writer.

`refusal` reads a file as Slurm does and says why slurmctld would stop, or None. `doubts` are what
Slurm lets pass and is wrong all the same: a node in two leaves, a switch under two others.
Held to the answers of a real 26.05.5 by `test_verdicts.py`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import yaml

MAX_RING = 16


def hosts(text: str) -> list[str]:
    """The names of a hostlist; by string replacement, unlike `topo.publish.slurm.hostlist`."""
    found: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        if "[" not in part:
            found.append(part)
            continue
        stem, inside = part.rstrip("]").split("[")
        for piece in inside.split(","):
            low, _, high = piece.partition("-")
            numbers = range(int(low), int(high or low) + 1)
            found += [stem + str(number).rjust(len(low), "0") for number in numbers]
    return found


def conf_units(text: str) -> tuple[list[dict[str, str]], list[int] | None]:
    units, sizes = [], None
    for line in text.splitlines():
        pairs = dict(word.split("=", 1) for word in line.split("#")[0].split())
        if "BlockSizes" in pairs:
            sizes = [int(size) for size in pairs["BlockSizes"].split(",")]
        elif pairs:
            units.append({key: value.strip('"') for key, value in pairs.items()})
    return units, sizes


def refusal(text: str, *, plugin: str = "yaml", partitions: tuple[str, ...] = ()) -> str | None:
    """Why slurmctld would not start; `plugin` is yaml, tree or block."""
    if plugin != "yaml":
        units, sizes = conf_units(text)
        if plugin == "block":
            return _sizes(sizes)
        if any("BlockName" in unit for unit in units):
            return "unrecognized key: BlockName"
        return _tree([(u["SwitchName"], u.get("Switches", "")) for u in units])
    return _yaml(text, partitions)


def _yaml(text: str, partitions: tuple[str, ...]) -> str | None:
    try:
        document = yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError:
        return "YAML parser error"
    if not document:
        return "Unable to load file"
    missing = set(partitions) - {each["topology"] for each in document}
    if missing:
        return "Invalid partition topology"
    return next(filter(None, map(_topology, document)), None)


def _topology(entry: dict[str, Any]) -> str | None:
    if "tree" in entry:
        rows = entry["tree"]["switches"]
        return _tree([(row["switch"], row.get("children") or "") for row in rows])
    if "block" in entry:
        return _sizes(entry["block"].get("block_sizes"))
    rings = entry.get("ring", {}).get("rings", []) if isinstance(entry.get("ring"), dict) else []
    return "ring is bigger" if any(len(hosts(r["nodes"])) > MAX_RING for r in rings) else None


def _tree(rows: list[tuple[str, str]]) -> str | None:
    names = Counter(name for name, _ in rows)
    if max(names.values()) > 1:
        return "already been defined"
    below = {name: hosts(children) for name, children in rows}
    if any(child not in names for children in below.values() for child in children):
        return "invalid child"
    for name in below:
        seen, layer = set[str](), {name}
        while layer:
            layer = {child for each in layer for child in below[each]}
            if name in layer:
                return "not a tree"
            layer -= seen
            seen |= layer
    return None


def _sizes(sizes: list[int] | None) -> str | None:
    for size in sizes or ():
        times, rest = divmod(size, (sizes or [1])[0])
        if rest or times & (times - 1) or len(sizes or ()) > 16:
            return "Invalid BlockSizes"
    return None


def doubts(rows: list[tuple[str, list[str], list[str]]], nodes: set[str]) -> Iterator[str]:
    """What is wrong with a tree that Slurm would run: rows of name, nodes and switches."""
    places = Counter(node for _, inside, _ in rows for node in inside)
    yield from (f"{node} is in {count} leaves" for node, count in places.items() if count > 1)
    parents = Counter(child for *_, below in rows for child in below)
    yield from (f"{name} is below {count}" for name, count in parents.items() if count > 1)
    yield from (
        f"{name} has nodes and switches" for name, inside, below in rows if inside and below
    )
    yield from (f"{node} is in no leaf" for node in nodes - places.keys())
    yield from (f"{name} is a bad name" for name, *_ in rows if not _NAME.fullmatch(name))
    tops = [name for name, inside, below in rows if not parents[name] and (inside or below)]
    if len(tops) != 1:
        yield f"roots: {tops}"


_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,63}")
