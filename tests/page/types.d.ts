// The documents of the API that the page reads; docs/api.md says what each field means.
// These types are read by the type checker alone and are sent to nobody.

declare namespace Api {
  type Status = "Ready" | "NotReady";
  interface Reason {
    code: string;
    text: string;
  }
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
    shared?: { resource: string; allocatable: number; used: number }[];
    reason?: Reason;
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
    capacity: Capacity;
    child: (Node | Group)[];
  }
  interface Wire {
    node: string;
    slot: number;
    peer: string | null;
    peer_slot: number | null;
    server: string;
    state: string;
  }
  interface Conflict {
    code: string;
    subjects: string[];
    text: string;
    fix: string;
  }
  interface Source {
    source: string;
    state: string;
    age_s: number | null;
    failing_s: number | null;
    trouble: string;
    fix: string;
    warnings: Reason[];
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
  interface Link {
    kind: string;
    code: string;
    count: number;
  }
  interface Matrix {
    gpus: string[];
    nics: string[];
    links: Link[][];
  }
  interface NodeWire {
    slot: number;
    server: string;
    nodes: string[];
    state: string;
    text: string;
  }
  interface NodeDetail {
    identity: {
      name: string;
      hostname: string;
      internal_ip: string;
      system_uuid: string;
      boot_id: string;
    } | null;
    gpus: Gpu[];
    matrix: Matrix | null;
    ports: {
      gpu: number;
      port: number;
      state: string;
      remote: string | null;
      trouble: string;
    }[];
    nics: { hca: string; port: number; up: boolean; state: string; rate_gbps: number | null }[];
    probes: { probe: string; state: string; detail: string }[];
    neighbours: string[];
    wires: NodeWire[];
    stale: boolean;
    beat_age_s: number | null;
  }
  interface Topology {
    generation: number;
    run: string;
    capacity_version: number;
    mode: string;
    restored_age_s: number | null;
    groups: Group[];
    unplaced: Node[];
    wires: Wire[];
    conflicts: Conflict[];
    unjoined: { id: string; names: Record<string, string>; group: string[]; text: string }[];
    sources: Source[];
    warnings: { code: string; text: string; fix: string }[];
    node?: NodeDetail;
    as_of?: { at: string };
  }
  interface Moment {
    at: string;
    generation: number;
    run: string;
    moments: number;
    changes: Record<string, number>;
  }
  interface Difference {
    from_at: string;
    to_at: string;
    changes: Change[];
  }
  interface Change {
    what: string;
    subject: string;
    before: string;
    after: string;
    why: string;
  }
  interface Finding {
    severity: string;
    code: string;
    subject: string;
    what: string;
    next_step: string;
    subjects: string[];
  }
  interface Findings {
    generation: number;
    run: string;
    findings: Finding[];
  }
  interface CapacityEvent {
    run: string;
    since: number;
    capacity_version: number;
    groups: { path: string[]; capacity: Capacity }[];
    nodes: {
      name: string;
      free_gpus: number;
      used_gpus: number;
      held_gpus: number;
      cordoned: boolean;
    }[];
  }
  interface PodGroup {
    index: number;
    tail: boolean;
    domains: { kind: string; name: string; path: string[] }[];
    nodes: { name: string; pods: number }[];
  }
  interface NodesOfJob {
    selector: Record<string, string>;
    tolerations: { key: string; operator: string; value: string; effect: string }[];
    exclude: string[];
  }
  type JobField = "pods" | "gpus_per_pod" | "group_size" | "mode" | "within" | "gpu_type" | "usage";
  interface Suggestion {
    kind: string;
    text: string;
    request: (Record<JobField, string | number | null> & NodesOfJob) | null;
    assume: { free: string[]; down: string[]; drain: string[] } | null;
    owners: string[];
  }
  interface Fits {
    feasible: true;
    generation: number;
    mode: string;
    gpu_type: string;
    used_reserve: boolean;
    groups: PodGroup[];
    objective: Record<string, number | Record<string, number>>;
    bounds: Record<string, number | null>;
    certified: Record<string, boolean>;
    explanation: string[];
  }
  interface NoFit {
    feasible: false;
    generation: number;
    failed: string;
    shortfall: Record<string, number>;
    never: boolean;
    largest_pods: number | null;
    would_fit: Suggestion[];
    explanation: string[];
  }
  type Placement = Fits | NoFit;
  interface GangSummary {
    id: string;
    namespace: string;
    name: string;
    kind: string;
    state: string;
    text: string;
    would_fit: string;
    ahead: number | null;
    priority: number;
    age_s: number;
    mode: string;
    within: string | null;
    pods: number;
    gpus_per_pod: number;
    group_size: number | null;
    there: number;
    placed: number;
    bound: number;
  }
  interface Off {
    detail: string;
    fix: string;
  }
  interface Gang extends GangSummary, NodesOfJob {
    members: { name: string; rank: number; group: number; node: string | null; state: string }[];
    groups: PodGroup[];
  }
  interface Problem {
    detail?: string;
    fix?: string;
    field?: string;
    reasons?: string[];
  }
}

/** The texts of the page, by language. */
type Texts = Record<string, string>;

/** What may stand in an element; null, undefined and false are nothing. */
type Child = Node | string | number | null | undefined | false | Child[];
