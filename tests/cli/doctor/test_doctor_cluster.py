"""What the doctor makes of what is found in a cluster: each cause once, with its next step.

The same situations on a real API server: `tests/e2e/kubernetes/test_doctor.py`.
"""

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from tests.support.waiting import CEILING_S
from topo.cli.diagnosis.checkup import of_cluster
from topo.diagnosis.finding import Finding
from topo.model.conditions.condition import Severity
from topo.model.rest.cluster import (
    ClusterDocument,
    ComputeDomainsDocument,
    DeniedDocument,
    HyperNodesDocument,
    LeaseDocument,
    PodTrouble,
    WorkloadDocument,
)

MASTER = WorkloadDocument(
    kind="Deployment",
    name="topo-master",
    wanted=2,
    updated=2,
    ready=2,
    images={"registry.example/topo-master:0.15.0": 2},
)
WORKER = WorkloadDocument(
    kind="DaemonSet",
    name="topo-worker",
    wanted=16,
    updated=16,
    ready=16,
    images={"registry.example/topo-worker:0.15.0": 16},
)
LEASE = LeaseDocument(
    name="topo-master", holder="topo-master-a", duration_s=15, age_s=1, renewing=True
)
WELL = ClusterDocument(
    namespace="metax",
    master=MASTER,
    worker=WORKER,
    lease=LEASE,
    account="topo-master",
    denied=(),
    hypernodes=HyperNodesDocument(ours=12),
)


def found(**different: Any) -> tuple[Finding, ...]:
    return of_cluster(replace(WELL, **different)).findings


def sole(**different: Any) -> Finding:
    findings = found(**different)
    assert len(findings) == 1, findings
    return findings[0]


def unready(workload: WorkloadDocument, ready: int, *pods: PodTrouble) -> WorkloadDocument:
    return replace(workload, ready=ready, troubles=pods)


def test_a_cluster_that_is_well_has_no_finding_and_says_what_was_looked_at():
    checkup = of_cluster(WELL)
    assert checkup.findings == ()
    assert not checkup.is_wrong
    assert checkup.healthy == (
        "all 2 pods of topo-master are ready",
        "all 16 pods of topo-worker are ready",
        "topo-master-a leads",
        "the service account metax/topo-master has every right it needs",
        "12 HyperNodes are ours, none shares a node with others",
    )


def test_a_cluster_without_the_product_is_told_how_to_install_it():
    (finding,) = of_cluster(ClusterDocument()).findings
    assert (finding.code, finding.severity) == ("not-installed", Severity.WRONG)
    assert "helm install" in finding.next_step


def test_who_may_not_list_deployments_is_told_to_name_the_namespace():
    """Not that nothing is installed: nobody knows that."""
    problem = "GET /apis/apps/v1/deployments: deployments.apps is forbidden"
    first, second = of_cluster(ClusterDocument(problems=(problem,))).findings
    assert (first.code, first.next_step) == ("not-found", "name its namespace with --namespace")
    assert (second.code, second.what) == ("not-read", problem)


@pytest.mark.parametrize(
    ("why", "step"),
    [
        ("ImagePullBackOff: Back-off pulling image", "`registry` or `image.version`"),
        (
            "CrashLoopBackOff: back-off 5m0s (7 restarts)",
            "`kubectl -n metax logs pod-1 --previous`",
        ),
        (
            "0/16 nodes are available: 16 Insufficient cpu.",
            "tolerations, nodeSelector or resources",
        ),
        ('MountVolume failed: secret "x" not found', "`kubectl -n metax describe pod pod-1`"),
        ("something else", "`kubectl -n metax describe pod pod-1`"),
    ],
)
def test_pods_that_are_not_ready_are_told_with_the_step_for_their_reason(why, step):
    pod = PodTrouble(name="pod-1", node="node-7", why=why)
    finding = sole(master=unready(MASTER, 1, pod))
    assert (finding.code, finding.subject) == ("pods-not-ready", "topo-master")
    assert finding.what == f"1 of 2 pods are not ready; 1 pod on node-7: {why}"
    assert step in finding.next_step


def test_workers_that_fail_for_one_reason_are_one_finding_with_their_nodes():
    pods = [
        PodTrouble(name=f"topo-worker-{n}", node=f"node-{n}", why="ImagePullBackOff")
        for n in (3, 4)
    ]
    finding = sole(worker=unready(WORKER, 14, *pods))
    assert finding.what == "2 of 16 pods are not ready; 2 pods on node-3, node-4: ImagePullBackOff"


def test_pods_that_were_never_made_are_told_too():
    """As where a quota or an admission policy refuses them: there is no pod to ask."""
    finding = sole(master=unready(MASTER, 0))
    assert finding.code == "pods-missing"
    assert finding.next_step == "`kubectl -n metax describe deployment topo-master` has its events"


def test_a_daemon_set_that_chooses_no_node_is_told_the_label():
    """That of its own selector, whatever the values made of it."""
    labels = {"example.com/gpu.installed": "true"}
    finding = sole(worker=replace(WORKER, wanted=0, ready=0, images={}, node_labels=labels))
    assert finding.code == "no-nodes-chosen"
    assert finding.what.startswith("no node has example.com/gpu.installed=true: ")
    assert "`kubectl label node NODE example.com/gpu.installed=true`" in finding.next_step


def test_missing_rights_are_one_finding_for_each_part_that_needs_them():
    denied = (
        DeniedDocument(verb="create", resource="events.events.k8s.io", namespace="default",
                       used_for="events"),
        DeniedDocument(verb="patch", resource="events.events.k8s.io", namespace="default",
                       used_for="events"),
        DeniedDocument(verb="patch", resource="nodes", used_for="labels"),
    )  # fmt: skip
    events, labels = found(denied=denied)
    assert events.code == labels.code == "rights-denied"
    assert events.subject == "metax/topo-master"
    assert events.what == (
        "the service account may not create, patch events.events.k8s.io in default, "
        "which events needs"
    )
    assert labels.what == "the service account may not patch nodes, which labels needs"
    assert "helm upgrade" in labels.next_step


def test_who_may_not_ask_for_rights_of_others_gets_a_note_and_no_verdict():
    finding = sole(denied=None)
    assert (finding.code, finding.severity) == ("rights-unknown", Severity.NOTE)


@pytest.mark.parametrize("lease", [None, replace(LEASE, holder="")])
def test_several_masters_without_a_leader_are_wrong(lease):
    finding = sole(lease=lease)
    assert (finding.code, finding.severity) == ("no-leader", Severity.WRONG)
    assert "kubectl -n metax logs deployment/topo-master" in finding.next_step


def test_one_master_needs_no_lease():
    alone = replace(MASTER, wanted=1, ready=1, images={"registry.example/topo-master:0.15.0": 1})
    assert found(master=alone, lease=None) == ()


def test_a_lease_that_is_not_renewed_is_wrong():
    old = replace(LEASE, age_s=64.0, renewing=False)
    finding = sole(lease=old)
    assert (finding.code, finding.severity) == ("lease-expired", Severity.WRONG)
    assert finding.what.startswith("topo-master-a has not renewed its lease for 64 s")


@pytest.mark.parametrize("age_s", [600.0, -600.0])
def test_a_lease_that_is_renewed_by_another_clock_is_a_note(age_s):
    finding = sole(lease=replace(LEASE, age_s=age_s))
    assert (finding.code, finding.severity) == ("clock-skew", Severity.NOTE)
    assert "differ by 600 s" in finding.what


def test_a_hypernode_of_others_is_a_note_and_one_that_shares_a_node_is_wrong():
    foreign = HyperNodesDocument(ours=12, foreign=("s0", "s1"))
    finding = sole(hypernodes=foreign)
    assert (finding.code, finding.severity) == ("foreign-hypernodes", Severity.NOTE)
    assert finding.what == "others own 2 HyperNodes: s0, s1"
    shared = HyperNodesDocument(ours=12, foreign=("s0",), overlaps={"node-1": "s0"})
    finding = sole(hypernodes=shared)
    assert (finding.code, finding.severity) == ("hypernode-overlap", Severity.WRONG)
    assert "node-1 (s0)" in finding.what


def test_a_compute_domain_in_two_cliques_is_wrong_and_two_in_one_are_a_note():
    split = ComputeDomainsDocument(cliques={"ml/train": {"u.1": 4, "u.2": 2, "": 1}})
    finding = sole(compute_domains=split)
    assert (finding.code, finding.severity) == ("compute-domain-split", Severity.WRONG)
    assert finding.what == "it has nodes of 2 NVLink cliques: u.1 (4 nodes), u.2 (2 nodes)"
    assert "nvlink-clique" in finding.next_step
    shared = ComputeDomainsDocument(cliques={"ml/b": {"u.1": 2}, "ml/a": {"u.1": 2}})
    finding = sole(compute_domains=shared)
    assert (finding.code, finding.severity) == ("compute-domains-share-clique", Severity.NOTE)
    assert finding.what == "2 ComputeDomains have nodes of it: ml/a, ml/b"


def test_pods_of_two_releases_are_a_note_and_so_are_masters_and_workers_of_two():
    mixed = {"registry.example/topo-master:0.15.0": 1, "registry.example/topo-master:0.14.0": 1}
    finding = sole(master=replace(MASTER, images=mixed))
    assert (finding.code, finding.severity) == ("version-skew", Severity.NOTE)
    assert "kubectl rollout status deployment/topo-master" in finding.next_step
    older = {"registry.example/topo-worker:0.14.0": 16}
    finding = sole(worker=replace(WORKER, images=older))
    assert finding.what == "the masters are release 0.15.0, the workers 0.14.0"


def test_a_digest_is_no_release():
    """The images of one release have different ones."""
    for tag in ("", ":0.15.0"):
        images = {name: f"registry.example/topo-{name}{tag}@sha256:{name}" for name in ("m", "w")}
        master = replace(MASTER, images={images["m"]: 2})
        assert found(master=master, worker=replace(WORKER, images={images["w"]: 16})) == ()


def test_a_registry_with_a_port_is_no_tag():
    ported = {"registry.example:5000/topo-worker:0.15.0": 16}
    assert found(worker=replace(WORKER, images=ported)) == ()


def test_outside_of_a_pod_in_cluster_is_refused_with_the_other_way():
    """The process that asks says what is missing; the command passes its three answers on."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_")}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "topo.cli.main", "doctor", "--in-cluster"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=CEILING_S,
    )
    assert done.returncode == 3
    assert "this is no pod of a cluster" in done.stderr
    assert "--kubeconfig" in done.stderr
    assert "Traceback" not in done.stderr
