"""What `topo doctor --kubeconfig` reads of a cluster: facts, from which it derives findings."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTrouble:
    """A pod that is not ready: its node, empty while on none, and why in the cluster's words."""

    name: str
    node: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadDocument:
    """A Deployment or DaemonSet: pods wanted, made of its newest template, and ready.

    `images` counts pods by image; `troubles` are the first of the pods that are not ready;
    `node_labels` are those that its nodes must have.
    """

    kind: str
    name: str
    wanted: int
    updated: int
    ready: int
    images: dict[str, int] = field(default_factory=dict)
    troubles: tuple[PodTrouble, ...] = ()
    node_labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseDocument:
    """The lease of the leader. `age_s`: since its renewal, by the clock of the asking machine.

    `renewing`: the age is within the term, or the lease changed while it was looked at.
    """

    name: str
    holder: str = ""
    duration_s: float = 0.0
    age_s: float | None = None
    renewing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeniedDocument:
    """A call that the master's account may not make, and what needs it."""

    verb: str
    resource: str
    namespace: str = ""
    used_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperNodesDocument:
    """Volcano's HyperNodes: how many are ours, the names of the others, and what both claim.

    `overlaps` has the other HyperNode by the node that one of ours has as well.
    """

    ours: int = 0
    foreign: tuple[str, ...] = ()
    overlaps: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeDomainsDocument:
    """NVIDIA's ComputeDomains: of each, its nodes by NVLink clique, as (clique → nodes).

    A node without the label of a clique counts under an empty name.
    """

    cliques: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDocument:
    """The parts of this product in a cluster. None: not there, or not readable.

    `flags` are those of the master, `account` its service account. `denied` is None where whoever
    asks may not ask for the rights of others. `problems`: what the API server answered instead.
    """

    namespace: str = ""
    master: WorkloadDocument | None = None
    worker: WorkloadDocument | None = None
    lease: LeaseDocument | None = None
    flags: tuple[str, ...] = ()
    account: str = ""
    denied: tuple[DeniedDocument, ...] | None = None
    hypernodes: HyperNodesDocument | None = None
    compute_domains: ComputeDomainsDocument | None = None
    problems: tuple[str, ...] = ()
