"""The jobs of a master, for what findings about cables cost."""

from typing import Any

from topo.cli.client.client import MasterClient
from topo.cli.client.decoding import decode
from topo.cli.options import path_segment
from topo.diagnosis.wiring.cost import Job
from topo.model.rest.gangs import GangDocument, GangsDocument

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
