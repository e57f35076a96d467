// Made by `make docs` from topo/model/rest. docs/api.md says what each key means.
// These types are read by the type checker alone and are sent to nobody.

declare namespace Api {
  /** Which moment a tree is of. What is free, used or held is not kept: it is 0 everywhere. */
  interface AsOf {
    at: string;
  }
  /** Nodes to see otherwise than they are, as `POST /v1/placements` takes them. */
  interface Assume {
    free: string[];
    down: string[];
    drain: string[];
  }
  /** Counts over a whole subtree, whatever of it is shown. */
  interface Capacity {
    nodes: number;
    ready: number;
    gpus: number;
    ready_gpus: number;
    free_gpus: number;
    used_gpus: number;
    held_gpus: number;
    cordoned_gpus: number;
  }
  /** The data of an event `capacity`: the groups and nodes that have another one than before. */
  interface CapacityEvent {
    generation: number;
    run: string;
    since: number;
    capacity_version: number;
    groups: GroupCapacity[];
    nodes: NodeCapacity[];
  }
  /** One difference between two consecutive generations; `status` of a node that came or went. */
  interface Change {
    generation: number;
    what: "node-added" | "node-removed" | "node-moved" | "node-status" | "group-added" | "group-removed" | "group-status" | "conflict-added" | "conflict-removed";
    subject: string;
    before: string;
    after: string;
    why: string;
    status: "" | "Ready" | "NotReady";
  }
  /** Two statements that cannot both hold, which one was used, and what to do about it; also what costs a Ready node (`link-degraded`). */
  interface Conflict {
    code: string;
    subjects: string[];
    text: string;
    fix: string;
  }
  /** What changed after `from` up to and with `to`, each counted by its run. */
  interface Diff {
    from: number;
    to: number;
    run: string;
    from_run: string;
    from_at: string;
    to_at: string;
    changes: Change[];
  }
  /** A group of the tree; `path` ends with its own name. */
  interface Domain {
    kind: string;
    name: string;
    path: string[];
  }
  /** One thing that is not as it should be, as `topo doctor` tells it. */
  interface Finding {
    severity: "wrong" | "note";
    code: "worker-stale" | "no-worker" | "node-not-ready" | "not-in-cluster" | "manager" | "config" | "gpus-missing" | "gpus-fewer" | "no-gpus" | "no-gpus-seen" | "ports-missing" | "links-missing" | "gpu-cut-off" | "nics-missing" | "gpu-unhealthy" | "port-down" | "link-down" | "fabric-lost" | "fabric-unhealthy" | "domain-lost" | "no-peer" | "unknown-peer" | "no-fabric" | "other-fabric" | "not-managed" | "not-in-config" | "no-group-in-config" | "unknown" | "incomplete" | "empty" | "oversize" | "child-not-ready" | "cloned-server-uuid" | "one-sided-link" | "gpus-disagree" | "oversize-group" | "link-degraded" | "wiring-differs-from-config" | "wiring-differs-from-manager" | "not-in-manager" | "machine-vanished" | "machine-ambiguous" | "machine-joined-twice" | "duplicate-worker" | "foreign-report" | "unknown-worker-token" | "no-worker-tokens" | "no-service-account" | "wrong-audience" | "wrong-service-account" | "token-without-node" | "token-refused" | "too-many-refused-tokens" | "token-not-reviewed" | "malformed-report" | "too-many-nodes" | "bad-node-name" | "source-waiting" | "source-failing" | "source-old" | "doubtful-config" | "doubtful-inventory" | "doubtful-object" | "worker-token-in-clear" | "api-token-in-clear" | "manager-login-in-clear" | "manager-unverified" | "worker-token-file" | "api-token-file" | "tls-files" | "state-copy" | "state-copy-file" | "leader-silent" | "kubernetes-nodes" | "kubernetes-pods" | "hypernode-conflict" | "admission-certificate" | "volcano-ignores-groups" | "volcano-evicts-nobody" | "volcano-configuration" | "gang-split" | "gang-hopeless" | "gang-no-groups" | "gang-stuck" | "gang-not-bound" | "gang-write-refused" | "gang-passed-by" | "unreachable" | "health" | "ready" | "restored" | "unjoined" | "version" | "not-asked" | "not-installed" | "not-found" | "rights-denied" | "rights-unknown" | "no-nodes-chosen" | "no-workers" | "pods-missing" | "pods-not-ready" | "version-skew" | "no-leader" | "lease-expired" | "clock-skew" | "hypernode-overlap" | "foreign-hypernodes" | "not-read";
    subject: string;
    what: string;
    next_step: string;
    subjects: string[];
  }
  /** The findings of the tree of this `generation` and `run`, in the order to look at them. */
  interface Findings {
    generation: number;
    run: string;
    findings: Finding[];
    as_of?: AsOf | null;
  }
  /** A plan with its proof: nodes by group in rank order, objective, bounds, one sentence each. */
  interface Fits {
    replanned?: boolean | null;
    replanned_because?: string | null;
    hold?: HoldSummary | null;
    feasible: true;
    generation: number;
    mode: "required" | "preferred";
    gpu_type: string;
    used_reserve: boolean;
    groups: PodGroup[];
    objective: Record<string, number | Record<string, number>>;
    bounds: Record<string, number | null>;
    certified: Record<string, boolean>;
    explanation: string[];
    capacity: Room[];
    run: string;
  }
  /** A gang with its pods by rank, and where its groups are: of pods that have a node. */
  interface Gang {
    id: string;
    namespace: string;
    name: string;
    kind: string;
    state: "pods-missing" | "other-gate" | "queue" | "never-let-in" | "in-line" | "no-room" | "never-fits" | "no-groups" | "behind" | "placed" | "opened" | "preempts" | "displaced" | "half-bound" | "split" | "bound" | "waived" | "write-refused" | "native";
    text: string;
    would_fit: string;
    ahead: number | null;
    priority: number;
    age_s: number;
    mode: "required" | "preferred";
    within: string | null;
    pods: number;
    gpus_per_pod: number;
    group_size: number | null;
    there: number;
    placed: number;
    bound: number;
    selector: Record<string, string>;
    tolerations: Toleration[];
    exclude: string[];
    members: GangPod[];
    groups: PodGroup[];
    history: Transition[];
    history_from: string;
  }
  /** A pod of a gang; `node` is where it is or shall be, null while it has no place. */
  interface GangPod {
    name: string;
    rank: number;
    group: number;
    node: string | null;
    state: "gated" | "nominated" | "open" | "bound" | "ending";
  }
  /** A gang without its pods. */
  interface GangSummary {
    id: string;
    namespace: string;
    name: string;
    kind: string;
    state: "pods-missing" | "other-gate" | "queue" | "never-let-in" | "in-line" | "no-room" | "never-fits" | "no-groups" | "behind" | "placed" | "opened" | "preempts" | "displaced" | "half-bound" | "split" | "bound" | "waived" | "write-refused" | "native";
    text: string;
    would_fit: string;
    ahead: number | null;
    priority: number;
    age_s: number;
    mode: "required" | "preferred";
    within: string | null;
    pods: number;
    gpus_per_pod: number;
    group_size: number | null;
    there: number;
    placed: number;
    bound: number;
  }
  /** All gangs there are: those that wait in the order of their turns, then the others. */
  interface Gangs {
    gangs: GangSummary[];
    off: Off | null;
  }
  /** One GPU (or one die, where the vendor counts dies). `healthy=None`: nobody said. */
  interface Gpu {
    index: number;
    uuid: string | null;
    bdf: string | null;
    model: string | null;
    memory_bytes: number | null;
    numa: number | null;
    healthy: boolean | null;
    trouble: string;
  }
  /** One GPU's NVLink fabric state. */
  interface GpuFabric {
    gpu: number;
    state: string;
    status: string;
    cluster_uuid: string | null;
    clique: number | null;
    healthy: boolean | null;
    trouble: string;
    rack: string | null;
    tray: string | null;
  }
  /** The capacity that a group has now. */
  interface GroupCapacity {
    path: string[];
    capacity: Capacity;
  }
  /** A group; `path` are the names from its root down, `expected` the nodes it should have. */
  interface Group {
    name: string;
    kind: string;
    tier: number;
    path: string[];
    key: string;
    status: Status;
    reasons: Reason[];
    expected: number | null;
    source: string | null;
    capacity: Capacity;
    child: (Node | Group)[];
  }
  /** The moments from the oldest to the newest; `now` is the master's time of the answer. */
  interface History {
    now: string;
    moments: Moment[];
  }
  /** The data of an event `hold`: the hold as it is then, or was where it ended. */
  interface HoldEvent {
    event: "reserved" | "committed" | "released" | "expired" | "bound" | "strayed";
    hold: HoldSummary;
    elsewhere: Record<string, number>;
  }
  /** A hold; `expires_in_s` is null once it is committed. `nodes` is their number. */
  interface HoldSummary {
    id: string;
    key: string | null;
    state: "held" | "committed";
    hold_s: number;
    expires_in_s: number | null;
    age_s: number;
    generation: number;
    mode: "required" | "preferred";
    gpu_type: string;
    pods: number;
    gpus_per_pod: number;
    group_size: number | null;
    gpus: number;
    nodes: number;
  }
  /** A job as `POST /v1/placements` takes it. */
  interface Job {
    pods: number;
    gpus_per_pod: number;
    group_size: number | null;
    mode: "required" | "preferred";
    within: string | null;
    gpu_type: string | null;
    selector: Record<string, string>;
    tolerations: Toleration[];
    exclude: string[];
    usage: string | null;
  }
  /** One cell of a link matrix: its kind, bonded links where counted, and the code as printed. */
  interface Link {
    kind: LinkKind;
    code: string;
    count: number;
  }
  /** How two devices of one host reach each other, in the words of the vendors' legends. */
  type LinkKind = "X" | "MX" | "NV" | "HCCS" | "HCCS_SW" | "SIO" | "UB" | "ETH" | "PIX" | "PXB" | "PHB" | "NODE" | "SYS" | "NA" | "?";
  /** The intra-node link matrix: `links[row][column]`. */
  interface LinkMatrix {
    gpus: string[];
    nics: string[];
    links: Link[][];
    numa: (number | null)[];
    cpus: string[];
    unknown_codes: number;
  }
  /** One interconnect port of one GPU; `port` counts from 0 as the libraries do. */
  interface LinkPort {
    gpu: number;
    port: number;
    state: PortState;
    speed_gts: number | null;
    width: number | null;
    remote: string | null;
    trouble: string;
  }
  /** An inter-node link: `unconfirmed` is one that only this end states, and joins nothing. */
  type LinkState = "up" | "down" | "unconfirmed";
  /** A moment: the tree was so from `at` (RFC 3339) until the next one. */
  interface Moment {
    at: string;
    generation: number;
    run: string;
    moments: number;
    changes: Record<string, number>;
  }
  /** One InfiniBand or RoCE port of the host; a `virtual` one comes and goes with the pods. */
  interface NetworkPort {
    hca: string;
    port: number;
    up: boolean;
    state: string;
    phys_state: string;
    rate_gbps: number | null;
    link_layer: string;
    node_guid: string | null;
    bdf: string | null;
    numa: number | null;
    virtual: boolean;
  }
  /** No placement exists now: the test that failed, its numbers, changes that would help. */
  interface NoFit {
    feasible: false;
    generation: number;
    mode: "required" | "preferred";
    failed: "label" | "gpus" | "slots" | "groups" | "tail" | "span";
    shortfall: Record<string, number>;
    never: boolean;
    largest_pods: number | null;
    would_fit: Suggestion[];
    explanation: string[];
    run: string;
  }
  /** Where the GPUs of a node are now; the fields are those of a node of the tree. */
  interface NodeCapacity {
    name: string;
    free_gpus: number;
    used_gpus: number;
    held_gpus: number;
    cordoned: boolean;
  }
  /** What the node's worker said last, `beat_age_s` seconds ago; empty where it never spoke. */
  interface NodeDetail {
    identity: NodeIdentity | null;
    gpus: Gpu[];
    matrix: LinkMatrix | null;
    ports: LinkPort[];
    peers: ServerPeers | null;
    fabrics: GpuFabric[];
    nics: NetworkPort[];
    probes: ProbeHealth[];
    neighbours: string[];
    wires: NodeWire[];
    stale: boolean;
    beat_age_s: number | null;
  }
  /** A leaf. `gpus` are those that its worker sees, else those that Kubernetes says it has. */
  interface Node {
    name: string;
    kind: "node";
    status: Status;
    reasons: Reason[];
    gpus: number;
    gpu_type: string;
    free_gpus: number;
    used_gpus: number;
    held_gpus: number;
    cordoned: boolean;
    since_s: number | null;
    pool?: string;
    shared?: SharedCards[];
  }
  /** The names under which others may know this node. */
  interface NodeIdentity {
    name: string;
    boot_id: string;
    hostname: string;
    internal_ip: string;
    provider_id: string;
    system_uuid: string;
  }
  /** One wire as this node sees it: its slot, and the server that should be at the other end. */
  interface NodeWire {
    slot: number;
    server: string;
    nodes: string[];
    state: LinkState;
    text: string;
  }
  /** A part of the service that is switched off: what is off, and how it is switched on. */
  interface Off {
    detail: string;
    fix: string;
  }
  /** One remote slot of a server: who is at the other end, and whether the connection is up. */
  interface Peer {
    slot: number;
    uuid: string;
    connected: boolean | null;
  }
  /** One group of pods, nodes in rank order; more than one domain: it is split. */
  interface PodGroup {
    index: number;
    tail: boolean;
    domains: Domain[];
    nodes: Pods[];
  }
  /** So many pods on this node. */
  interface Pods {
    name: string;
    pods: number;
  }
  /** A GPU link port: `unused` is wired to nothing and says nothing about health. */
  type PortState = "up" | "down" | "unused";
  /** How one probe fared at its last run. */
  interface ProbeHealth {
    probe: string;
    state: ProbeState;
    detail: string;
  }
  /** `absent` is a source that this host does not have; it says nothing about health. */
  type ProbeState = "ok" | "absent" | "failed" | "timed-out";
  /** What is wrong, the field it is about, and the fix; `title` is the status in words. */
  interface Problem {
    type: string;
    title: string;
    status: number;
    detail: string;
    field?: string;
    fix?: string;
    reasons?: string[];
    mode?: string;
  }
  /** Why something is not as it should be: a stable code for machines, a sentence for people. */
  interface Reason {
    code: string;
    text: string;
  }
  /** How full a group is that the plan uses: free on open nodes before it, and taken by it. */
  interface Room {
    path: string[];
    kind: string;
    tier: number;
    free_gpus: number;
    taken_gpus: number;
  }
  /** This server's identity on the inter-node links and the servers it sees there. */
  interface ServerPeers {
    local: string;
    remotes: Peer[];
  }
  /** What there is of a resource in which cards are shared, and what pods have of it. */
  interface SharedCards {
    resource: string;
    allocatable: number;
    used: number;
  }
  /** How a source fares: seconds since its last good answer, and for how long it has failed. */
  interface Source {
    source: string;
    state: "ok" | "waiting" | "failing";
    age_s: number | null;
    failing_s: number | null;
    trouble: string;
    fix: string;
    warnings: Reason[];
  }
  /** The two words of the vendor's document. */
  type Status = "Ready" | "NotReady";
  /** The data of one event of the stream: all that made one generation of the one before. */
  interface Step {
    generation: number;
    changes: Change[];
  }
  /** A change that would let the job in, tried out. */
  interface Suggestion {
    kind: string;
    text: string;
    request: Job | null;
    assume: Assume | null;
    owners: string[];
    numbers: Record<string, number>;
  }
  /** A taint that all pods of a job bear, as Kubernetes defines it. */
  interface Toleration {
    key: string;
    operator: string;
    value: string;
    effect: string;
  }
  /** The tree. `run` names the process that counts `generation`; `node` only where asked for. */
  interface Topology {
    generation: number;
    run: string;
    capacity_version: number;
    mode: "config" | "dragonfly" | "switchbox" | "nvlink" | "auto";
    restored_age_s: number | null;
    groups: Group[];
    unplaced: Unplaced[];
    wires: Wire[];
    conflicts: Conflict[];
    unjoined: Unjoined[];
    sources: Source[];
    warnings: Warning[];
    node?: NodeDetail | null;
    as_of?: AsOf | null;
  }
  /** A gang came into `state` at `at` (RFC 3339), for the reason in `text`. */
  interface Transition {
    at: string;
    state: "pods-missing" | "other-gate" | "queue" | "never-let-in" | "in-line" | "no-room" | "never-fits" | "no-groups" | "behind" | "placed" | "opened" | "preempts" | "displaced" | "half-bound" | "split" | "bound" | "waived" | "write-refused" | "native";
    text: string;
    source: "leader" | "pod";
  }
  /** A machine of the cluster manager that matches no node: the names by which it was tried. */
  interface Unjoined {
    id: string;
    names: Record<string, string>;
    group: string[];
    text: string;
  }
  /** A known node in no group, and why. */
  interface Unplaced {
    name: string;
    kind: "node";
    status: Status;
    reasons: Reason[];
    gpus: number;
    gpu_type: string;
    free_gpus: number;
    used_gpus: number;
    held_gpus: number;
    cordoned: boolean;
    since_s: number | null;
    pool?: string;
    shared?: SharedCards[];
    reason: Reason;
  }
  /** What is wrong with how the master itself is run, and the next step. */
  interface Warning {
    code: string;
    text: string;
    fix: string;
  }
  /** A wire between the slots of two nodes, told once. */
  interface Wire {
    node: string;
    slot: number;
    peer: string | null;
    peer_slot: number | null;
    server: string;
    state: "up" | "down" | "unconfirmed";
  }
}
