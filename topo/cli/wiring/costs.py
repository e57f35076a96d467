"""The nodes and jobs of a master, for what findings about cables cost."""

from collections.abc import Iterator, Sequence
from typing import Any

from topo.cli.client.client import MasterClient
from topo.cli.client.decoding import decode
from topo.cli.options import path_segment
from topo.diagnosis.wiring.cost import Costs, Job, NodeAt
from topo.model.forest import Status
from topo.model.rest.gangs import GangDocument, GangsDocument
from topo.model.rest.topology import GroupDocument, TopologyDocument, is_group

_GANGS_PATH = "/v1/gangs"


async def fetch_jobs(master: MasterClient) -> tuple[Job, ...]:
    """Fetch the jobs with the nodes of their pods: one call, and one for each that has pods there.

    A master that places no jobs has none.
    """
    jobs: list[Job] = []
    for gang in decode(GangsDocument, await master.document(_GANGS_PATH))["gangs"]:
        name = f"{gang['namespace']}/{gang['name']}"
        nodes: frozenset[str] = frozenset()
        if gang["placed"] or gang["bound"]:
            at = path_segment(gang["id"], "gang", "`topo gangs`")
            whole: Any = await master.document(f"{_GANGS_PATH}/{at}")
            members = decode(GangDocument, whole)["members"]
            nodes = frozenset(each["node"] for each in members if each["node"] is not None)
        jobs.append(Job(name, nodes, gang["would_fit"]))
    return tuple(jobs)


def costs_of(document: TopologyDocument, jobs: Sequence[Job]) -> Costs:
    """Return where findings look up what they cost."""
    nodes = {name: node for group in document["groups"] for name, node in _nodes(group, ())}
    for each in document["unplaced"]:
        nodes[each["name"]] = NodeAt(each["gpus"], False, (), ())
    return Costs(nodes, jobs)


def _nodes(group: GroupDocument, above: tuple[GroupDocument, ...]) -> Iterator[tuple[str, NodeAt]]:
    """Yield the nodes of a group with the groups around them, the innermost first."""
    around = (group, *above)
    for child in group["child"]:
        if is_group(child):
            yield from _nodes(child, around)
        else:
            broken = (each["name"] for each in around if each["status"] != Status.READY)
            names = tuple(each["name"] for each in around)
            is_usable = child["status"] == Status.READY
            yield child["name"], NodeAt(child["gpus"], is_usable, names, tuple(broken))
