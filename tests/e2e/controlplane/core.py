"""The command lines of Kubernetes itself: etcd, the API server, its controllers, its scheduler."""

import secrets
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.e2e.controlplane.client import Access
from tests.e2e.controlplane.processes import Program
from tests.e2e.controlplane.programs import KUBE
from topo.kit.files import write_private
from topo.sim.certificates import Authority

LOOPBACK = "127.0.0.1"
_GATES = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup")
POD_GROUPS = (f"--feature-gates={','.join(f'{gate}=true' for gate in _GATES)}",)
"""The gates of Kubernetes' own gangs, for three programs."""
SERVES_POD_GROUPS = (
    "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true",
)
_RUNS = 100
"""Clusters beside each other on one machine: each has addresses of its own."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the servers of one cluster listen, on the loopback address only."""

    etcd: int
    etcd_peers: int
    api: int

    @property
    def number(self) -> int:
        """What tells the addresses of this cluster from those of another: ports come in threes."""
        return self.etcd // 3 % _RUNS + 1

    @property
    def services(self) -> str:
        """The first three octets of ClusterIPs; the API server has the first. All of 127/8
        is this machine, so that a Service without kube-proxy is a listener on its ClusterIP.
        """
        return f"127.{_RUNS + self.number}.0"

    @property
    def pods(self) -> str:
        """The first two octets of the addresses of pods that are processes."""
        return f"10.{self.number}"


class Files:
    """The paths below a cluster's directory."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.audit = home / "audit.jsonl"
        """What service accounts asked of the API server, an event a line."""
        self.kubeconfig = home / "admin.kubeconfig"
        self.ca = home / "pki" / "ca.pem"
        self.tokens = home / "tokens.csv"

    def log(self, name: str) -> Path:
        """Where a program writes what it has to say."""
        return self.home / f"{name}.log"


def etcd(files: Files, ports: Ports) -> Program:
    """The store, which trusts that the disk keeps what it was given: a test's data may be lost."""
    clients = f"http://{LOOPBACK}:{ports.etcd}"
    peers = f"http://{LOOPBACK}:{ports.etcd_peers}"
    flags = (
        f"--data-dir={files.home / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    )
    return Program("etcd", (str(KUBE.program("etcd")), *flags), files.log("etcd"))


def api_server(files: Files, ports: Ports) -> tuple[Program, Access]:
    """The API server with real TLS and RBAC, and what an administrator needs to use it."""
    authority = Authority.at(files.home / "pki")
    hosts = (LOOPBACK, f"{ports.services}.1", "localhost", "kubernetes.default.svc")
    certificate, key = authority.leaf("kube-apiserver", *hosts)
    signer_public, signer = authority.leaf("service-accounts", LOOPBACK)
    admin = Access(f"https://{LOOPBACK}:{ports.api}", files.ca, secrets.token_urlsafe(24))
    write_private(files.tokens, f'{admin.token},admin,admin,"system:masters"\n'.encode())
    policy = files.home / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(_AUDIT_POLICY))
    flags = (
        f"--etcd-servers=http://{LOOPBACK}:{ports.etcd}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports.api}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={signer}",
        f"--service-account-key-file={signer_public}",
        f"--token-auth-file={files.tokens}",
        "--authorization-mode=Node,RBAC",
        f"--service-cluster-ip-range={ports.services}.0/24",
        "--allow-privileged=true",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={files.audit}",
        "--audit-log-mode=blocking",
    )
    argv = (str(KUBE.program("kube-apiserver")), *flags)
    return Program("kube-apiserver", argv, files.log("kube-apiserver")), admin


def controller_manager(files: Files) -> Program:
    """The controllers of Kubernetes: they hold the nodes' taints, Deployments, DaemonSets, Jobs."""
    flags = (
        f"--kubeconfig={files.kubeconfig}",
        "--leader-elect=false",
        f"--service-account-private-key-file={files.home / 'pki' / 'service-accounts.key'}",
        f"--root-ca-file={files.ca}",
        "--secure-port=0",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    )
    argv = (str(KUBE.program("kube-controller-manager")), *flags)
    return Program("kube-controller-manager", argv, files.log("kube-controller-manager"))


def scheduler(files: Files) -> Program:
    """Kubernetes' own scheduler."""
    flags = (f"--kubeconfig={files.kubeconfig}", "--leader-elect=false", "--secure-port=0")
    argv = (str(KUBE.program("kube-scheduler")), *flags)
    return Program("kube-scheduler", argv, files.log("kube-scheduler"))


_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}
