"""The request of `topo place` from its options, and the groups of the tree that an answer uses."""

from collections.abc import Iterable, Sequence
from typing import Any

from topo.cli.client.client import MasterClient
from topo.cli.client.decoding import decode
from topo.cli.exit_codes import CliError, usage
from topo.model.durations import parse_duration
from topo.model.errors import Refusal
from topo.model.rest.placements import FitsDocument, NoFitDocument, PodGroupDocument
from topo.model.rest.topology import GroupDocument

PLACEMENTS_PATH = "/v1/placements"


def body(**fields: Any) -> dict[str, Any]:
    """Return the request with the fields that were given, in the order given."""
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def selector(pairs: Iterable[str]) -> dict[str, str]:
    """Parse labels from `KEY=VALUE`; raise `CliError`."""
    labels: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise usage(f"{pair!r} is not a label", "--selector", "write KEY=VALUE")
        if labels.setdefault(key, value) != value:
            raise usage(f"{key} is given twice, with two values", "--selector", "give it once")
    return labels


def tolerations(words: Iterable[str]) -> list[dict[str, str]]:
    """Parse tolerations from `KEY[=VALUE][:EFFECT]`, as kubectl writes taints."""
    given = []
    for word in words:
        rest, _, effect = word.partition(":")
        key, equals, value = rest.partition("=")
        toleration = {"key": key, "operator": "Equal" if equals else "Exists"}
        toleration |= {"value": value} if equals else {}
        given.append(toleration | ({"effect": effect} if effect else {}))
    return given


def hold_s(text: str | None) -> float | None:
    """Parse the seconds of a time limit such as `10m`; raise `CliError`."""
    if text is None:
        return None
    seconds = parse_duration(text)
    if isinstance(seconds, Refusal):
        raise usage(seconds.what, "--hold", seconds.fix)
    return seconds


def read_placement(raw: Any) -> FitsDocument | NoFitDocument:
    """Decode an answer of `/v1/placements`; raise `CliError` where it is none."""
    refused = isinstance(raw, dict) and raw.get("feasible") is False
    return decode(NoFitDocument, raw) if refused else decode(FitsDocument, raw)


async def roots(master: MasterClient, groups: Sequence[PodGroupDocument]) -> list[GroupDocument]:
    """Fetch the roots of the tree that the groups lie in; one that is gone by now is left out."""
    names = [
        domain["path"][0]
        for group in groups
        for domain in group["domains"]
        if domain["path"] and not (domain["kind"] == "node" and len(domain["path"]) == 1)
    ]
    found: list[GroupDocument] = []
    for name in dict.fromkeys(names):
        try:
            candidates = (await master.topology(group=name))["groups"]
        except CliError:
            continue
        found += [group for group in candidates if group["path"] == (name,)]
    return found


def hostfile(groups: Iterable[PodGroupDocument]) -> list[str]:
    """Return a node name per pod, in rank order."""
    return [
        node["name"] for group in groups for node in group["nodes"] for _ in range(node["pods"])
    ]
