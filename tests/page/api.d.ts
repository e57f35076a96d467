// Made by `make docs` from topo/model/rest. docs/api.md says what each key means.
// These types are read by the type checker alone and are sent to nobody.

declare namespace Api {
  interface Ahead {
    namespace: string;
    gpu_type: string;
    gpus: number;
    counted: number;
    limit: number | null;
    source: string;
    for_s: number;
    keepers: Keeper[];
  }
  interface Amount {
    shares: number;
    cores: number;
    memory: number;
  }
  interface AsOf {
    at: string;
  }
  interface Assume {
    free: string[];
    down: string[];
    drain: string[];
  }
  interface Cable {
    end: End;
    planned: End | null;
    found: End | null;
    rate: string;
    line: number | null;
    label: string;
    racks: string[];
  }
  interface CableFinding {
    verdict: string;
    text: string;
    cables: Cable[];
    moves: Move[];
    actions: string[];
    cost: Cost | null;
  }
  interface CapacityCounts {
    nodes: number;
    ready: number;
    gpus: number;
    ready_gpus: number;
    free_gpus: number;
    used_gpus: number;
    held_gpus: number;
    cordoned_gpus: number;
  }
  interface CapacityEvent {
    generation: number;
    run: string;
    since: number;
    capacity_version: number;
    groups: GroupCapacity[];
    nodes: NodeCapacity[];
  }
  interface Card {
    id: string;
    family: string;
    model: string;
    mode: string;
    healthy: boolean;
    total: Amount;
    used: Amount;
    free: Amount;
  }
  interface Change {
    generation: number;
    what: "node-added" | "node-removed" | "node-moved" | "node-status" | "fabric-moved" | "fabric-group-added" | "fabric-group-removed" | "group-added" | "group-removed" | "group-status" | "conflict-added" | "conflict-removed";
    subject: string;
    before: string;
    after: string;
    why: string;
    status: "" | "Ready" | "NotReady";
    fabric?: string;
  }
  interface Conflict {
    code: string;
    subjects: string[];
    text: string;
    fix: string;
    since_s: number | null;
  }
  interface Cost {
    groups: string[];
    gpus: number;
    running: string[];
    waiting: string[];
  }
  interface Diff {
    from: number;
    to: number;
    run: string;
    from_run: string;
    from_at: string;
    to_at: string;
    changes: Change[];
  }
  interface Domain {
    kind: string;
    name: string;
    path: string[];
  }
  interface End {
    device: string;
    port: string;
  }
  interface Evidence {
    kind: string;
    count: number;
    first_age_s: number;
    last_age_s: number;
  }
  interface Fabric {
    fabric: string;
    kinds: string[];
    groups: number;
    nodes: number;
    source: string;
    unplaced: string[];
    reason: Reason | null;
  }
  type FabricKind = "nvlink-domain" | "superpod";
  interface FabricPlace {
    fabric: string;
    path: string[];
    kinds: string[];
  }
  interface Finding {
    severity: "wrong" | "note";
    code: "worker-stale" | "report-unusable" | "no-worker" | "node-not-ready" | "not-in-cluster" | "overbooked" | "manager" | "config" | "gpus-missing" | "gpus-fewer" | "no-gpus" | "no-gpus-seen" | "ports-missing" | "links-missing" | "gpu-cut-off" | "nics-missing" | "uplinks-down" | "gpu-unhealthy" | "port-down" | "link-down" | "fabric-lost" | "fabric-unhealthy" | "domain-lost" | "no-peer" | "unknown-peer" | "no-fabric" | "other-fabric" | "not-managed" | "not-in-config" | "no-group-in-config" | "no-group-label" | "group-label-missing" | "not-in-fabric" | "unknown" | "incomplete" | "empty" | "oversize" | "child-not-ready" | "cloned-server-uuid" | "one-sided-link" | "gpus-disagree" | "super-pod-doubled" | "super-pod-incomplete" | "oversize-group" | "link-degraded" | "link-suspected" | "links-suspected-together" | "quarantined" | "wiring-differs-from-config" | "wiring-differs-from-manager" | "not-in-manager" | "wiring-differs-from-labels" | "sources-differ" | "group-labels-vanished" | "fabric-cable-astray" | "fabric-cable-missing" | "fabric-cable-slow" | "several-neighbours" | "neighbour-lost" | "off-rail" | "fabric-node-vanished" | "adapter-doubled" | "adapter-ambiguous" | "machine-vanished" | "machine-ambiguous" | "machine-joined-twice" | "duplicate-worker" | "foreign-report" | "unknown-worker-token" | "no-worker-tokens" | "no-service-account" | "wrong-audience" | "wrong-service-account" | "token-without-node" | "token-refused" | "too-many-refused-tokens" | "token-not-reviewed" | "malformed-report" | "too-many-nodes" | "bad-node-name" | "unnamed-sweeper" | "source-waiting" | "source-failing" | "source-old" | "doubtful-config" | "doubtful-fabric" | "fabric-trunks-weak" | "doubtful-inventory" | "several-label-families" | "doubtful-object" | "worker-token-in-clear" | "api-token-in-clear" | "manager-login-in-clear" | "manager-unverified" | "worker-token-file" | "api-token-file" | "wiring-plan-file" | "cables-differ-from-plan" | "tls-files" | "extender-tls-files" | "extender-open" | "state-copy" | "state-copy-file" | "leader-silent" | "kubernetes-nodes" | "kubernetes-pods" | "object-set-aside" | "hypernode-conflict" | "topology-conflict" | "topology-outdated" | "kueue-chooses-nodes" | "node-features-unserved" | "node-feature-conflict" | "admission-certificate" | "gpu-quota" | "volcano-ignores-groups" | "volcano-evicts-nobody" | "volcano-configuration" | "pod-groups-unserved" | "provisioning-unserved" | "requests-awaited" | "kueue-unserved" | "kept-ahead" | "pod-groups-unheeded" | "composite-pod-groups-unheeded" | "pod-groups-unconstrained" | "gang-split" | "gang-hopeless" | "gang-no-groups" | "gang-no-labels" | "gang-stuck" | "gang-not-bound" | "gang-write-refused" | "gang-unreadable" | "gang-passed-by" | "unreachable" | "health" | "ready" | "restored" | "unjoined" | "nodes-failed-together" | "fabric-unplaced" | "version" | "not-asked" | "not-installed" | "not-found" | "rights-denied" | "rights-unknown" | "no-nodes-chosen" | "no-workers" | "pods-missing" | "pods-not-ready" | "version-skew" | "no-leader" | "lease-expired" | "clock-skew" | "hypernode-overlap" | "foreign-hypernodes" | "compute-domain-split" | "compute-domains-share-clique" | "not-read";
    subject: string;
    what: string;
    next_step: string;
    subjects: string[];
    since_s: number | null;
    jobs?: string[];
  }
  interface Findings {
    generation: number;
    run: string;
    findings: Finding[];
    as_of?: AsOf | null;
  }
  interface Fits {
    inside?: Inside | null;
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
  interface Gang {
    id: string;
    namespace: string;
    name: string;
    kind: string;
    state: "pods-missing" | "other-gate" | "queue" | "never-let-in" | "in-line" | "no-room" | "never-fits" | "no-groups" | "behind" | "placed" | "opened" | "preempts" | "displaced" | "half-bound" | "split" | "bound" | "growing" | "waived" | "write-refused" | "unreadable" | "no-labels" | "native";
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
    losses: Loss[];
    selector: Record<string, string>;
    tolerations: Toleration[];
    exclude: string[];
    usage: string;
    inside: Inside | null;
    hybrid: string[];
    members: GangPod[];
    groups: PodGroup[];
    history: Transition[];
    history_from: string;
  }
  interface GangPod {
    name: string;
    rank: number;
    group: number;
    node: string | null;
    state: "gated" | "nominated" | "open" | "bound" | "ending";
  }
  interface GangSummary {
    id: string;
    namespace: string;
    name: string;
    kind: string;
    state: "pods-missing" | "other-gate" | "queue" | "never-let-in" | "in-line" | "no-room" | "never-fits" | "no-groups" | "behind" | "placed" | "opened" | "preempts" | "displaced" | "half-bound" | "split" | "bound" | "growing" | "waived" | "write-refused" | "unreadable" | "no-labels" | "native";
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
    losses: Loss[];
  }
  interface Gangs {
    gangs: GangSummary[];
    off: Off | null;
    ahead: Ahead[];
  }
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
    server: number | null;
    size: number | null;
    kind: FabricKind;
  }
  interface GroupCapacity {
    path: string[];
    capacity: CapacityCounts;
  }
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
    confirmed_by: string[];
    capacity: CapacityCounts;
    child: (Node | Group)[];
  }
  interface History {
    now: string;
    moments: Moment[];
  }
  interface HoldEvent {
    event: "reserved" | "committed" | "released" | "expired" | "bound" | "strayed";
    hold: HoldSummary;
    elsewhere: Record<string, number>;
  }
  interface HoldSummary {
    id: string;
    key: string | null;
    namespace: string;
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
  interface Inside {
    kind: string;
    name: string;
    path: string[];
    fabric: string;
  }
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
  interface Keeper {
    kind: "gang" | "group" | "request" | "workload";
    name: string;
    gpus: number;
  }
  interface Link {
    kind: LinkKind;
    code: string;
    count: number;
  }
  type LinkKind = "X" | "MX" | "NV" | "HCCS" | "HCCS_SW" | "SIO" | "UB" | "ETH" | "PIX" | "PXB" | "PHB" | "NODE" | "SYS" | "NA" | "?";
  interface LinkMatrix {
    gpus: string[];
    nics: string[];
    links: Link[][];
    numa: (number | null)[];
    cpus: string[];
    unknown_codes: number;
  }
  interface LinkPort {
    gpu: number;
    port: number;
    state: PortState;
    speed_gts: number | null;
    width: number | null;
    remote: string | null;
    trouble: string;
  }
  type LinkState = "up" | "down" | "unconfirmed";
  interface LinkSuspicion {
    link: string;
    suspected: boolean;
    score: number;
    times: number;
    confirmed: string | null;
    lifted_in_s: number | null;
    evidence: Evidence[];
  }
  interface Loss {
    node: string;
    group: number;
    code: "worker-stale" | "report-unusable" | "no-worker" | "node-not-ready" | "not-in-cluster" | "overbooked" | "manager" | "config" | "gpus-missing" | "gpus-fewer" | "no-gpus" | "no-gpus-seen" | "ports-missing" | "links-missing" | "gpu-cut-off" | "nics-missing" | "uplinks-down" | "gpu-unhealthy" | "port-down" | "link-down" | "fabric-lost" | "fabric-unhealthy" | "domain-lost" | "no-peer" | "unknown-peer" | "no-fabric" | "other-fabric" | "not-managed" | "not-in-config" | "no-group-in-config" | "no-group-label" | "group-label-missing" | "not-in-fabric" | "unknown" | "incomplete" | "empty" | "oversize" | "child-not-ready" | "cloned-server-uuid" | "one-sided-link" | "gpus-disagree" | "super-pod-doubled" | "super-pod-incomplete" | "oversize-group" | "link-degraded" | "link-suspected" | "links-suspected-together" | "quarantined" | "wiring-differs-from-config" | "wiring-differs-from-manager" | "not-in-manager" | "wiring-differs-from-labels" | "sources-differ" | "group-labels-vanished" | "fabric-cable-astray" | "fabric-cable-missing" | "fabric-cable-slow" | "several-neighbours" | "neighbour-lost" | "off-rail" | "fabric-node-vanished" | "adapter-doubled" | "adapter-ambiguous" | "machine-vanished" | "machine-ambiguous" | "machine-joined-twice" | "duplicate-worker" | "foreign-report" | "unknown-worker-token" | "no-worker-tokens" | "no-service-account" | "wrong-audience" | "wrong-service-account" | "token-without-node" | "token-refused" | "too-many-refused-tokens" | "token-not-reviewed" | "malformed-report" | "too-many-nodes" | "bad-node-name" | "unnamed-sweeper" | "source-waiting" | "source-failing" | "source-old" | "doubtful-config" | "doubtful-fabric" | "fabric-trunks-weak" | "doubtful-inventory" | "several-label-families" | "doubtful-object" | "worker-token-in-clear" | "api-token-in-clear" | "manager-login-in-clear" | "manager-unverified" | "worker-token-file" | "api-token-file" | "wiring-plan-file" | "cables-differ-from-plan" | "tls-files" | "extender-tls-files" | "extender-open" | "state-copy" | "state-copy-file" | "leader-silent" | "kubernetes-nodes" | "kubernetes-pods" | "object-set-aside" | "hypernode-conflict" | "topology-conflict" | "topology-outdated" | "kueue-chooses-nodes" | "node-features-unserved" | "node-feature-conflict" | "admission-certificate" | "gpu-quota" | "volcano-ignores-groups" | "volcano-evicts-nobody" | "volcano-configuration" | "pod-groups-unserved" | "provisioning-unserved" | "requests-awaited" | "kueue-unserved" | "kept-ahead" | "pod-groups-unheeded" | "composite-pod-groups-unheeded" | "pod-groups-unconstrained" | "gang-split" | "gang-hopeless" | "gang-no-groups" | "gang-no-labels" | "gang-stuck" | "gang-not-bound" | "gang-write-refused" | "gang-unreadable" | "gang-passed-by" | "unreachable" | "health" | "ready" | "restored" | "unjoined" | "nodes-failed-together" | "fabric-unplaced" | "version" | "not-asked" | "not-installed" | "not-found" | "rights-denied" | "rights-unknown" | "no-nodes-chosen" | "no-workers" | "pods-missing" | "pods-not-ready" | "version-skew" | "no-leader" | "lease-expired" | "clock-skew" | "hypernode-overlap" | "foreign-hypernodes" | "compute-domain-split" | "compute-domains-share-clique" | "not-read";
    text: string;
    since_s: number | null;
  }
  interface Moment {
    at: string;
    generation: number;
    run: string;
    moments: number;
    changes: Record<string, number>;
  }
  interface Move {
    source: End;
    target: End;
    is_exchange: boolean;
  }
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
    interfaces: string[];
  }
  interface NicNeighbour {
    nic: string;
    chassis: string;
    name: string;
    port: string;
    port_description: string;
  }
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
  interface NodeCapacity {
    shared?: SharedCards[];
    cards?: Card[];
    name: string;
    free_gpus: number;
    used_gpus: number;
    held_gpus: number;
    cordoned: boolean;
  }
  interface NodeDetail {
    identity: NodeIdentity | null;
    gpus: Gpu[];
    matrix: LinkMatrix | null;
    ports: LinkPort[];
    peers: ServerPeers | null;
    fabrics: GpuFabric[];
    nics: NetworkPort[];
    nic_neighbours: NicNeighbour[];
    uplinks: Uplink[];
    probes: ProbeHealth[];
    neighbours: string[];
    wires: NodeWire[];
    stated: StatedPath[];
    suspicion: NodeSuspicion | null;
    places?: FabricPlace[];
    stale: boolean;
    beat_age_s: number | null;
  }
  interface Node {
    shared?: SharedCards[];
    cards?: Card[];
    name: string;
    kind: "node";
    status: Status;
    reasons: NodeReason[];
    gpus: number;
    gpu_type: string;
    free_gpus: number;
    used_gpus: number;
    held_gpus: number;
    cordoned: boolean;
    since_s: number | null;
    suspected?: string[];
    quarantine?: string | null;
    pool?: string;
  }
  interface NodeIdentity {
    name: string;
    boot_id: string;
    hostname: string;
    internal_ip: string;
    provider_id: string;
    system_uuid: string;
  }
  interface NodeReason {
    code: string;
    text: string;
    since_s: number | null;
  }
  interface NodeSuspicion {
    node: string;
    quarantine: string | null;
    quarantine_age_s: number | null;
    links: LinkSuspicion[];
  }
  interface NodeWire {
    slot: number;
    server: string;
    nodes: string[];
    state: LinkState;
    text: string;
  }
  interface Off {
    detail: string;
    fix: string;
  }
  interface Peer {
    slot: number;
    uuid: string;
    connected: boolean | null;
  }
  interface Place {
    name: string;
    cables: number;
    moves: number;
    mended: number;
    findings: CableFinding[];
  }
  interface PodGroup {
    index: number;
    tail: boolean;
    domains: Domain[];
    nodes: Pods[];
  }
  interface Pods {
    name: string;
    pods: number;
  }
  type PortState = "up" | "down" | "unused";
  interface ProbeHealth {
    probe: string;
    state: ProbeState;
    detail: string;
  }
  type ProbeState = "ok" | "absent" | "failed" | "timed-out";
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
  interface Reason {
    code: string;
    text: string;
  }
  interface Room {
    path: string[];
    kind: string;
    tier: number;
    free_gpus: number;
    taken_gpus: number;
  }
  interface ServerPeers {
    local: string;
    remotes: Peer[];
  }
  interface SharedCards {
    resource: string;
    allocatable: number;
    used: number;
  }
  interface Source {
    source: string;
    state: "ok" | "waiting" | "failing";
    age_s: number | null;
    failing_s: number | null;
    trouble: string;
    fix: string;
    warnings: SourceWarning[];
    detail: string;
  }
  interface SourceWarning {
    code: string;
    text: string;
    since_s: number | null;
  }
  interface StatedPath {
    source: string;
    path: string[];
  }
  type Status = "Ready" | "NotReady";
  interface Step {
    generation: number;
    changes: Change[];
  }
  interface Suggestion {
    kind: string;
    text: string;
    request: Job | null;
    assume: Assume | null;
    owners: string[];
    numbers: Record<string, number>;
  }
  interface Toleration {
    key: string;
    operator: string;
    value: string;
    effect: string;
  }
  interface Topology {
    generation: number;
    run: string;
    capacity_version: number;
    mode: "config" | "dragonfly" | "switchbox" | "nvlink" | "auto" | "labels" | "fabric";
    restored_age_s: number | null;
    groups: Group[];
    unplaced: Unplaced[];
    wires: Wire[];
    conflicts: Conflict[];
    unjoined: Unjoined[];
    sources: Source[];
    warnings: Warning[];
    fabrics?: Fabric[];
    fabric?: string;
    node?: NodeDetail | null;
    as_of?: AsOf | null;
  }
  interface Transition {
    at: string;
    state: "pods-missing" | "other-gate" | "queue" | "never-let-in" | "in-line" | "no-room" | "never-fits" | "no-groups" | "behind" | "placed" | "opened" | "preempts" | "displaced" | "half-bound" | "split" | "bound" | "growing" | "waived" | "write-refused" | "unreadable" | "no-labels" | "native";
    text: string;
    source: "leader" | "pod";
  }
  interface Unjoined {
    id: string;
    names: Record<string, string>;
    group: string[];
    text: string;
  }
  interface Unplaced {
    shared?: SharedCards[];
    cards?: Card[];
    name: string;
    kind: "node";
    status: Status;
    reasons: NodeReason[];
    gpus: number;
    gpu_type: string;
    free_gpus: number;
    used_gpus: number;
    held_gpus: number;
    cordoned: boolean;
    since_s: number | null;
    suspected?: string[];
    quarantine?: string | null;
    pool?: string;
    reason: Reason;
  }
  interface Uplink {
    adapter: string;
    interface: string;
    gpus: number[];
    switch: string;
    port: string;
    rate: string;
    rail: number | null;
    unseen_s: number | null;
  }
  interface Warning {
    code: string;
    text: string;
    fix: string;
  }
  interface Wire {
    node: string;
    slot: number;
    peer: string | null;
    peer_slot: number | null;
    server: string;
    state: "up" | "down" | "unconfirmed";
  }
  interface Wiring {
    planned: number;
    right: number;
    counts: Record<string, number>;
    notes: string[];
    places: Place[];
  }
}
