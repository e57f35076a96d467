"""How the masters themselves are: for who runs them."""

from monitoring.dashboards.board import (
    MASTERS,
    Board,
    Panel,
    Query,
    Section,
    Unit,
    counted,
    happened,
    masters,
    most,
    number,
    quantiles,
    rates,
    told,
)

_PROCESS = Section(
    "Process",
    (
        Panel(
            title="CPU",
            means="Cores that each master uses.",
            queries=(
                Query(
                    f"rate(process_cpu_seconds_total{{{MASTERS}}}[$__rate_interval])",
                    "{{instance}}",
                ),
            ),
            unit=Unit.CORES,
        ),
        Panel(
            title="Memory",
            means="Resident memory of each master.",
            queries=(Query(f"process_resident_memory_bytes{{{MASTERS}}}", "{{instance}}"),),
            unit=Unit.BYTES,
        ),
        Panel(
            title="Lag of the event loop",
            means="How late it came back: more than half a second means too little CPU.",
            queries=quantiles("loop_lag_seconds"),
            unit=Unit.SECONDS,
        ),
    ),
)
_ENGINE = Section(
    "Engine",
    (
        rates("Events", "What the engine was told, a second.", "events_total", "type"),
        Panel(
            title="Time of a batch",
            means="Time to apply a batch of events and publish the result.",
            queries=quantiles("engine_batch_seconds"),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Queue",
            means="Events that wait, and those refused because too many did.",
            queries=(
                Query(most("queue_events"), "waiting"),
                Query(f"sum({masters('events_dropped_total')})", "dropped since the start"),
            ),
        ),
        counted(
            "Saves of the state",
            "Writes of the state; without a good one a restart begins from nothing.",
            "state_saves_total",
            "result",
        ),
        Panel(
            title="Time of a save",
            means="Time that the last write of the state took.",
            queries=(Query(most("state_save_duration_seconds"), "last"),),
            unit=Unit.SECONDS,
        ),
        told(
            "Size of /node_group",
            "The document that schedulers poll, plain and packed.",
            "document_bytes",
            "encoding",
            unit=Unit.BYTES,
        ),
    ),
)
_HISTORY = Section(
    "History",
    (
        Panel(
            title="Reach of the history",
            means="How far back the slider and `topo diff` go; --history-age at most.",
            queries=(
                Query(
                    f"max(time() - ({masters('history_oldest_timestamp_seconds')} > 0))", "reach"
                ),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Memory of the history",
            means="Bytes that kept moments take, by master; --history-bytes at most.",
            queries=(Query(masters("history_bytes"), "{{instance}}"),),
            unit=Unit.BYTES,
        ),
        Panel(
            title="Moments",
            means="Moments of the tree that are kept; those that went, and by which limit.",
            queries=(
                Query(most("history_moments"), "kept"),
                Query(happened("history_dropped_moments_total", "limit"), "gone by {{limit}}"),
                Query(f"sum({masters('history_failures_total')})", "failed since the start"),
            ),
        ),
    ),
)
_HTTP = Section(
    "Who asks",
    (
        rates(
            "Requests", "Requests to the API a second, by status.", "http_requests_total", "code"
        ),
        Panel(
            title="Connections",
            means="Connections open at each port; 2048 at the port of the API.",
            queries=(
                Query(f"sum by (port) ({masters('connections')})", "{{port}}"),
                Query(most("connection_limit", "port"), "limit of {{port}}"),
            ),
        ),
        Panel(
            title="Unread answers",
            means="Bytes that wait for their readers: the slowest is cut at 64 MiB.",
            queries=(Query(f"sum by (port) ({masters('unread_bytes')})", "{{port}}"),),
            unit=Unit.BYTES,
        ),
        counted(
            "Connections that were ended",
            "By the master, with why: `room` means more callers than the limit.",
            "connections_ended_total",
            "reason",
        ),
        Panel(
            title="Event streams",
            means="Readers who follow the changes.",
            queries=(Query(f"sum({masters('event_streams')})", "open"),),
        ),
        counted(
            "Malformed requests", "Bytes that are no HTTP.", "malformed_requests_total", "port"
        ),
    ),
)
_MANAGER = Section(
    "Cluster manager",
    (
        counted(
            "Questions",
            "Questions to the cluster manager, and how they ended.",
            "cluster_manager_polls_total",
            "asked, result",
        ),
        Panel(
            title="Time of an answer",
            means="Until the manager's answer was read, or the question was given up.",
            queries=quantiles("cluster_manager_poll_seconds"),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Its inventory",
            means="Machines and groups that it lists, and machines that match no node.",
            queries=(
                Query(most("cluster_manager_machines"), "machines"),
                Query(most("cluster_manager_groups"), "groups"),
                Query(most("unjoined_machines"), "without a node"),
            ),
        ),
    ),
)
_KUBERNETES = Section(
    "Kubernetes",
    (
        number(
            "Leaders", "Masters that lead: one, or nothing is written.", f"sum({masters('leads')})"
        ),
        number(
            "Changes of the leader",
            "How often the lease has changed hands, as the lease says.",
            most("lease_transitions"),
        ),
        told(
            "Silence of the API server",
            "Time since it last told anything: more than 140 s is an outage.",
            "kube_last_heard_age_seconds",
            "resource",
            unit=Unit.SECONDS,
        ),
        rates(
            "Requests to the API server",
            "A second, by status; `none` without an answer.",
            "kube_requests_total",
            "code",
        ),
        Panel(
            title="Lists",
            means="Lists begun: one at the start, and one for each version that was forgotten.",
            queries=(
                Query(f"sum by (resource) ({masters('kube_relists_total')})", "{{resource}}"),
            ),
        ),
        counted(
            "Watches that broke",
            "By reason; `ended` is the usual one.",
            "kube_reconnects_total",
            "reason",
        ),
        counted(
            "Writes",
            "Writes to the cluster by result; `denied` means a right is missing.",
            "kube_writes_total",
            "result",
        ),
        told(
            "Writes that wait",
            "Or are under way: they wait for the API server, or for --kube-qps.",
            "kube_writes_waiting",
            "manager",
        ),
    ),
    in_kubernetes=True,
)
INTERNALS = Board(
    "internals",
    "Service internals",
    "How the masters themselves are.",
    (_PROCESS, _ENGINE, _HISTORY, _HTTP, _MANAGER, _KUBERNETES),
)
