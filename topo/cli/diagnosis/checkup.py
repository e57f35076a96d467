"""The check-up of a running master (health, readiness, version, topology), and of a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from topo.cli.client.client import MasterClient
from topo.cli.client.decoding import decode, problem_of
from topo.cli.diagnosis import cluster
from topo.cli.exit_codes import CliError
from topo.diagnosis import diagnosis
from topo.diagnosis.finding import WITH_JOBS, Finding, with_jobs
from topo.model.conditions.condition import Severity
from topo.model.conditions.doctor import ServiceCondition
from topo.model.rest.cluster import ClusterDocument
from topo.model.rest.findings import FindingsDocument
from topo.model.rest.topology import TopologyDocument


@dataclass(frozen=True, slots=True)
class Checkup:
    """The findings, and one line for each part that is healthy."""

    findings: tuple[Finding, ...]
    healthy: tuple[str, ...]

    @property
    def is_wrong(self) -> bool:
        """Whether any finding is more than a note."""
        return any(finding.severity is Severity.WRONG for finding in self.findings)


def merge(*checkups: Checkup) -> Checkup:
    """Return all of their findings, in this order."""
    findings = tuple(finding for each in checkups for finding in each.findings)
    return Checkup(findings, tuple(line for each in checkups for line in each.healthy))


def of_cluster(document: ClusterDocument) -> Checkup:
    """Return the check-up of the product inside a cluster."""
    findings, healthy = cluster.examine(document)
    return Checkup(tuple(findings), tuple(healthy))


NOT_ASKED = Checkup((Finding.of(ServiceCondition.NOT_ASKED, "master"),), ())


def unreachable(error: CliError) -> Checkup:
    """Return a master that does not answer, as one finding among others."""
    refusal = error.refusal
    what = f"{refusal.what} (at {refusal.where})"
    return Checkup((Finding.of(ServiceCondition.UNREACHABLE, "master", what, refusal.fix),), ())


async def examine(master: MasterClient) -> Checkup:
    """Ask health, readiness, version and topology; raises `CliError` where none answers."""
    findings: list[Finding] = []
    healthy: list[str] = []
    for path in ("/health", "/ready"):
        answer = await master.get(path)
        said = problem_of(answer.body)
        findings += diagnosis.service_findings(path, answer.status, said["detail"], said["fix"])
        if answer.status == 200:
            healthy.append(f"GET {master.url.joinpath(path[1:])} answers {answer.status}")
    theirs, ours = await master.release(), version("supernode-topology")
    if theirs not in {None, ours}:
        what = f"the master is version {theirs}, this topo is {ours}"
        findings.append(Finding.of(ServiceCondition.VERSION, "master", what))
    elif theirs is not None:
        healthy.append(f"version {theirs}, the same as this topo")
    document = await master.topology()
    found = await _with_jobs(master, diagnosis.examine(document))
    if any(map(diagnosis.is_of_source, found)):  # who is waited for is said there, with the fix
        findings = [finding for finding in findings if finding.code != ServiceCondition.READY]
    return Checkup((*findings, *found), (*healthy, *_healthy(document, found)))


async def _with_jobs(master: MasterClient, found: Sequence[Finding]) -> Sequence[Finding]:
    """Return the findings with the jobs that run there, which the master alone knows."""
    if not any(each.code in WITH_JOBS for each in found):
        return found
    try:
        told = decode(FindingsDocument, await master.document("/v1/findings"))["findings"]
    except CliError:  # a master of an earlier release has no such call
        return found
    jobs = {(each["code"], *each["subjects"]): each.get("jobs", ()) for each in told}
    named = ((each, jobs.get((each.code, *each.subjects), ())) for each in found)
    return [with_jobs(each, {each.subjects[0]: run}) if run else each for each, run in named]


def _healthy(document: TopologyDocument, found: Sequence[Finding]) -> list[str]:
    ill = {finding.subject for finding in found}
    lines = [
        f"source {source['source']} is well"
        for source in document["sources"]
        if source["state"] == "ok" and source["source"] not in ill
    ]
    ready = sum(group["capacity"]["ready"] for group in document["groups"])
    nodes = sum(group["capacity"]["nodes"] for group in document["groups"])
    if nodes and ready == nodes:
        lines.append(f"all {nodes} nodes in groups are Ready")
    return lines
