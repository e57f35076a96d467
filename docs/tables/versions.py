"""The table of the versions that are tested: read from the Go modules of the real programs."""

import re

from docs.tables.section import ROOT, table

_MODULES = ROOT / "tests" / "e2e" / "controlplane"
_ETCD = "go.etcd.io/etcd/server/v3"
_FLOOR = re.compile(r'^kubeVersion: ">=(\d+\.\d+)', re.MULTILINE)


def render() -> str:
    """Return each program with the versions of the end-to-end tests, and the oldest that works."""
    head = ("program", "the whole suite runs on", "a part of it on", "works from")
    kubernetes, helm = "k8s.io/kubernetes", "helm.sh/helm"
    floor = _FLOOR.search((ROOT / "helm/supernode-topology/Chart.yaml").read_text())
    if floor is None:
        raise ValueError("Chart.yaml names no kubeVersion")
    rows = (
        (
            "Kubernetes: API server, controllers, kube-scheduler",
            _version("kube", kubernetes),
            _version("kube-oldest", kubernetes),
            floor.group(1),
        ),
        ("etcd", _version("kube", _ETCD), _version("kube-oldest", _ETCD), ""),
        ("Volcano", _version("volcano", "volcano.sh/volcano"), "", "1.12; native jobs: 1.14"),
        ("Kueue", _version("kueue", "sigs.k8s.io/kueue"), "", ""),
        ("JobSet", _version("jobs", "sigs.k8s.io/jobset"), "", ""),
        ("Trainer", _version("jobs", "github.com/kubeflow/trainer/v2"), "", ""),
        ("LeaderWorkerSet", _version("jobs", "sigs.k8s.io/lws"), "", ""),
        ("KubeRay", "", _version("operators", "github.com/ray-project/kuberay/ray-operator"), ""),
        (
            "Training Operator",
            "",
            _version("operators", "github.com/kubeflow/training-operator"),
            "",
        ),
        ("MPI Operator", "", _version("operators", "github.com/kubeflow/mpi-operator"), ""),
        ("Helm", _version("tools", f"{helm}/v4"), _version("helm3", f"{helm}/v3"), "3.14"),
        ("kwok, which plays the nodes", _version("tools", "sigs.k8s.io/kwok"), "", ""),
    )
    return table(head, rows)


def _version(module: str, path: str) -> str:
    """Return the version of a Go module that one of ours requires."""
    found = re.search(rf"{re.escape(path)} v(\S+)", (_MODULES / module / "go.mod").read_text())
    if found is None:
        raise ValueError(f"{module}/go.mod does not require {path}")
    return found.group(1)
