"""What is wrong with the product inside a cluster, from what was found there: pure."""

from collections.abc import Iterator, Sequence

from topo.diagnosis.finding import Finding, listed, number
from topo.model.conditions.doctor import ClusterCondition
from topo.model.rest.cluster import (
    ClusterDocument,
    ComputeDomainsDocument,
    DeniedDocument,
    HyperNodesDocument,
    LeaseDocument,
    WorkloadDocument,
)
from topo.model.rest.topology import WITHOUT_WORKERS
from topo.model.words import counted

_STEPS = (
    ("ImagePull", "correct `registry` or `image.version` in the values, or its pull secret"),
    ("ErrImage", "correct `registry` or `image.version` in the values, or its pull secret"),
    ("CrashLoop", "`kubectl -n NAMESPACE logs POD --previous` has its last words"),
    ("Error", "`kubectl -n NAMESPACE logs POD --previous` has its last words"),
    ("nodes are available", "set its tolerations, nodeSelector or resources in the values"),
    ("not found", "`kubectl -n NAMESPACE describe pod POD` names the ConfigMap or Secret"),
)


def examine(found: ClusterDocument) -> tuple[list[Finding], list[str]]:
    """Return the findings, causes first, and a line for each thing that is well."""
    findings = list(_findings(found))
    return findings, list(_healthy(found, {finding.code for finding in findings}))


def _findings(found: ClusterDocument) -> Iterator[Finding]:
    if found.master is None:
        yield _not_installed(found)
    if found.denied is None and found.master is not None:
        yield Finding.of(ClusterCondition.RIGHTS_UNKNOWN, "you")
    yield from _denied(found.denied or (), found)
    for workload in (found.master, found.worker):
        if workload is not None:
            yield from _workload(workload, found.namespace)
    if found.master is not None:
        if found.worker is None and not _is_without_workers(found.flags):
            yield Finding.of(ClusterCondition.NO_WORKERS, found.namespace)
        yield from _versions(found.master, found.worker)
        yield from _lease(found.lease, found)
    if found.hypernodes is not None:
        yield from _hypernodes(found.hypernodes)
    if found.compute_domains is not None:
        yield from _compute_domains(found.compute_domains)
    for problem in found.problems:
        yield Finding.of(ClusterCondition.NOT_READ, "you", problem)


def _is_without_workers(flags: Sequence[str]) -> bool:
    """Return whether these flags of a master name a mode that needs no worker on any node."""
    return any(f"--mode={mode}" in flags for mode in WITHOUT_WORKERS)


def _not_installed(found: ClusterDocument) -> Finding:
    where = f"namespace {found.namespace}" if found.namespace else "the cluster"
    is_unread = any("deployments" in problem for problem in found.problems)
    code = ClusterCondition.NOT_FOUND if is_unread else ClusterCondition.NOT_INSTALLED
    return Finding.of(code, where)


def _denied(denied: Sequence[DeniedDocument], found: ClusterDocument) -> Iterator[Finding]:
    """Return one finding for each part that lacks rights, with all of what it lacks."""
    for used_for in dict.fromkeys(each.used_for for each in denied):
        lacking: dict[tuple[str, str], list[str]] = {}
        for each in denied:
            if each.used_for == used_for:
                lacking.setdefault((each.resource, each.namespace), []).append(each.verb)
        texts = [
            f"{', '.join(verbs)} {resource}{f' in {namespace}' if namespace else ''}"
            for (resource, namespace), verbs in lacking.items()
        ]
        what = f"the service account may not {'; '.join(texts)}, which {used_for} needs"
        subject = f"{found.namespace}/{found.account}"
        yield Finding.of(ClusterCondition.RIGHTS_DENIED, subject, what)


def _workload(workload: WorkloadDocument, namespace: str) -> Iterator[Finding]:
    name = workload.name
    if workload.kind == "DaemonSet" and not workload.wanted:
        labels = [f"{key}={value}" for key, value in workload.node_labels.items()]
        code = ClusterCondition.NO_NODES_CHOSEN
        what = f"no node has {' and '.join(labels)}: {code.cause}" if labels else code.cause
        yield Finding.of(code, name, what, code.next_step(LABEL=" ".join(labels) or "LABEL"))
    missing = workload.wanted - workload.ready
    if missing <= 0:
        return
    by_why: dict[str, list[tuple[str, str]]] = {}
    for pod in workload.troubles:
        by_why.setdefault(pod.why, []).append((pod.name, pod.node))
    so_many = f"{missing} of {workload.wanted} pods are not ready"
    if not by_why:
        code, workload_name = ClusterCondition.PODS_MISSING, f"{workload.kind.lower()} {name}"
        step = code.next_step(NAMESPACE=namespace, WORKLOAD=workload_name)
        yield Finding.of(code, name, so_many, step)
    for why, pods in by_why.items():
        first = pods[0][0]
        places = [node for _, node in pods if node]
        at = f" on {listed(places)}" if places else ""
        what = f"{so_many}; {number(pods, 'pod')}{at}: {why or 'no reason given'}"
        code = ClusterCondition.PODS_NOT_READY
        step = next((text for mark, text in _STEPS if mark in why), code.step)
        step = step.replace("NAMESPACE", namespace).replace("POD", first)
        yield Finding.of(code, name, what, step)


def _versions(master: WorkloadDocument, worker: WorkloadDocument | None) -> Iterator[Finding]:
    for workload in (master, worker):
        if workload is not None and len(workload.images) > 1:
            running = ", ".join(f"{count} of {image}" for image, count in workload.images.items())
            step = f"wait for the roll-out: `kubectl rollout status {workload.kind.lower()}/"
            step += f"{workload.name}`; pods that stay behind are told above"
            what = f"pods of several releases run: {running}"
            yield Finding.of(ClusterCondition.VERSION_SKEW, workload.name, what, step)
    tags = [_tags(workload) for workload in (master, worker) if workload is not None]
    if len(tags) == 2 and all(len(each) == 1 for each in tags) and tags[0] != tags[1]:
        (ours,), (theirs,) = tags
        what = f"the masters are release {ours}, the workers {theirs}"
        yield Finding.of(ClusterCondition.VERSION_SKEW, "the release", what)


def _tags(workload: WorkloadDocument) -> set[str]:
    """Return the tags of the images that run, without a digest, which no two images share.

    An image that has only a digest has no tag: nothing says which release it is.
    """
    names = (image.rpartition("/")[2].partition("@")[0] for image in workload.images)
    return {tag for tag in (name.partition(":")[2] for name in names) if tag}


def _lease(lease: LeaseDocument | None, found: ClusterDocument) -> Iterator[Finding]:
    where = "lease topo-master"
    if lease is None or not lease.holder:
        if found.master is not None and found.master.wanted > 1:
            code = ClusterCondition.NO_LEADER
            yield Finding.of(code, where, next_step=code.next_step(NAMESPACE=found.namespace))
        return
    if not lease.renewing:
        since = "" if lease.age_s is None else f" for {lease.age_s:.0f} s"
        what = f"{lease.holder} has not renewed its lease{since}, and nobody else took it"
        code = ClusterCondition.LEASE_EXPIRED
        yield Finding.of(code, where, what, code.next_step(NAMESPACE=found.namespace))
    elif lease.age_s is not None and not -1 <= lease.age_s <= lease.duration_s:
        what = f"the clock of {lease.holder} and the one here differ by {abs(lease.age_s):.0f} s"
        yield Finding.of(ClusterCondition.CLOCK_SKEW, where, what)


def _hypernodes(found: HyperNodesDocument) -> Iterator[Finding]:
    if found.overlaps:
        nodes = [f"{node} ({other})" for node, other in found.overlaps.items()]
        what = f"in a HyperNode of ours and in one of others: {listed(nodes)}; "
        what += "Volcano trusts no tree with such a node and places no job by topology"
        yield Finding.of(ClusterCondition.HYPERNODE_OVERLAP, "HyperNodes", what)
    elif found.foreign:
        what = f"others own {number(found.foreign, 'HyperNode')}: {listed(found.foreign)}"
        yield Finding.of(ClusterCondition.FOREIGN_HYPERNODES, "HyperNodes", what)


def _compute_domains(found: ComputeDomainsDocument) -> Iterator[Finding]:
    domains: dict[str, list[str]] = {}
    for domain, nodes in found.cliques.items():
        cliques = sorted(clique for clique in nodes if clique)
        for clique in cliques:
            domains.setdefault(clique, []).append(domain)
        if len(cliques) > 1:
            counts = [f"{clique} ({counted(nodes[clique], 'node')})" for clique in cliques]
            what = f"it has nodes of {number(cliques, 'NVLink clique')}: {listed(counts)}"
            yield Finding.of(ClusterCondition.COMPUTE_DOMAIN_SPLIT, f"ComputeDomain {domain}", what)
    for clique, several in sorted(domains.items()):
        if len(several) > 1:
            what = f"{number(several, 'ComputeDomain')} have nodes of it: {listed(sorted(several))}"
            code = ClusterCondition.COMPUTE_DOMAINS_SHARE_CLIQUE
            yield Finding.of(code, f"NVLink clique {clique}", what)


def _healthy(found: ClusterDocument, codes: set[str]) -> Iterator[str]:
    for workload in (found.master, found.worker):
        if workload is not None and workload.wanted and workload.ready >= workload.wanted:
            yield f"all {workload.wanted} pods of {workload.name} are ready"
    if found.lease is not None and found.lease.renewing and found.lease.holder:
        yield f"{found.lease.holder} leads"
    if found.denied == ():
        yield f"the service account {found.namespace}/{found.account} has every right it needs"
    if found.hypernodes is not None and ClusterCondition.HYPERNODE_OVERLAP not in codes:
        yield f"{found.hypernodes.ours} HyperNodes are ours, none shares a node with others"
