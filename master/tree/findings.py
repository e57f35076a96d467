"""The document of `GET /v1/findings`: what `topo doctor` finds in the tree, judged by the master.

The judgement reads the document of `GET /v1/topology` as the master writes it.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from master.tree import topology_document
from master.tree.topology_document import TopologyView
from topo.diagnosis import diagnosis
from topo.diagnosis.finding import WITH_JOBS, Finding, with_jobs
from topo.gangs.machine.gang import Gang
from topo.model.conditions.tree import NodeCondition
from topo.model.rest.findings import FindingsDocument

_OF_COUNTS = {NodeCondition.NO_GPUS, NodeCondition.NO_GPUS_SEEN, NodeCondition.OVERBOOKED}
"""Codes that also ask what the cluster counts on a node."""

_AGE = re.compile(rb',"since_s":[0-9.e+-]+')


@dataclass(frozen=True, slots=True)
class Examined:
    """The input of the judgement: the tree as it is shown, and why the master is not ready.

    `gangs` are the jobs that are known.
    """

    view: TopologyView
    unready_reasons: tuple[str, ...] = ()
    gangs: Sequence[Gang] = ()


def findings(examined: Examined, mode: str, now_s: float) -> list[Finding]:
    """Return the findings in the order to look at them; `now_s` is on the sources' clock.

    O(vertices), and O(pods of gangs) where a finding lists jobs.
    """
    seen = diagnosis.examine(topology_document.document(examined.view, mode, now_s))
    jobs = _jobs_on({n for f in seen if f.code in WITH_JOBS for n in f.subjects}, examined.gangs)
    found = [with_jobs(each, jobs) for each in seen]
    if not examined.unready_reasons or any(map(diagnosis.is_of_source, found)):
        return found
    why = "; ".join(examined.unready_reasons)
    return [*diagnosis.service_findings("/ready", 503, why), *found]


def forest_findings(view: TopologyView, mode: str) -> list[Finding]:
    """Return the findings on the forest of a moment; its sources and counts are not kept."""
    found = diagnosis.examine(topology_document.document(view, mode, 0.0))
    return [finding for finding in found if finding.code not in _OF_COUNTS]


def body(examined: Examined, mode: str, now_s: float, run: str) -> bytes:
    """Return the document's bytes; `run` counts its generation."""
    generation = examined.view.snapshot.generation
    return serialize(document(generation, run, findings(examined, mode, now_s)))


def without_ages(content: bytes) -> bytes:
    """Return the document's bytes but for the ages, which move while nothing changes."""
    return _AGE.sub(b"", content)


def document(generation: int, run: str, found: Iterable[Finding]) -> FindingsDocument:
    """Return the findings of a generation of a run as a document."""
    return {"generation": generation, "run": run, "findings": [each.document for each in found]}


def serialize(answer: FindingsDocument) -> bytes:
    """Return a document's bytes."""
    return orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)


def _jobs_on(nodes: Collection[str], gangs: Iterable[Gang]) -> Mapping[str, Sequence[str]]:
    """Return the jobs that have pods on these nodes, by node. O(pods) if there are nodes."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for gang in gangs if nodes else ():
        for node in dict.fromkeys(each.node for each in gang.members if each.live):
            if node is not None and node in nodes:
                found[node].append(f"{gang.namespace}.{gang.name}")
    return found
