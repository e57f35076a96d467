"""How the masters themselves are: for who runs them."""

from monitoring.dashboards.board import (
    MASTERS,
    Board,
    Panel,
    Query,
    Section,
    Unit,
    happened,
    masters,
    most,
    number,
    quantiles,
    rate,
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
        Panel(
            title="Events",
            means="What the engine was told, a second.",
            queries=(Query(rate("events_total", "type"), "{{type}}"),),
            unit=Unit.PER_SECOND,
        ),
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
        Panel(
            title="Saves of the state",
            means="Writes of the state; without a good one a restart begins from nothing.",
            queries=(Query(happened("state_saves_total", "result"), "{{result}}"),),
        ),
        Panel(
            title="Time of a save",
            means="Time that the last write of the state took.",
            queries=(Query(most("state_save_duration_seconds"), "last"),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Size of /node_group",
            means="The document that schedulers poll, plain and packed.",
            queries=(Query(most("document_bytes", "encoding"), "{{encoding}}"),),
            unit=Unit.BYTES,
        ),
    ),
)
_HTTP = Section(
    "Who asks",
    (
        Panel(
            title="Requests",
            means="Requests to the API a second, by status.",
            queries=(Query(rate("http_requests_total", "code"), "{{code}}"),),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Connections",
            means="Connections open at each port; the limit is that of --connection-limit.",
            queries=(
                Query(f"sum by (port) ({masters('connections')})", "{{port}}"),
                Query(most("connection_limit", "port"), "limit of {{port}}"),
            ),
        ),
        Panel(
            title="Unread answers",
            means="Bytes that wait for their readers: the slowest is cut at --unread-limit.",
            queries=(Query(f"sum by (port) ({masters('unread_bytes')})", "{{port}}"),),
            unit=Unit.BYTES,
        ),
        Panel(
            title="Connections that were ended",
            means="By the master, with why: `room` means more callers than the limit.",
            queries=(Query(happened("connections_ended_total", "reason"), "{{reason}}"),),
        ),
        Panel(
            title="Event streams",
            means="Readers who follow the changes.",
            queries=(Query(f"sum({masters('event_streams')})", "open"),),
        ),
        Panel(
            title="Malformed requests",
            means="Bytes that are no HTTP.",
            queries=(Query(happened("malformed_requests_total", "port"), "{{port}}"),),
        ),
    ),
)
_MANAGER = Section(
    "Cluster manager",
    (
        Panel(
            title="Questions",
            means="Questions to the cluster manager, and how they ended.",
            queries=(
                Query(
                    happened("cluster_manager_polls_total", "asked, result"), "{{asked}} {{result}}"
                ),
            ),
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
            "Leaders",
            "Masters that lead: one, or nothing is written.",
            f"sum({masters('leads')})",
        ),
        number(
            "Changes of the leader",
            "How often the lease has changed hands, as the lease says.",
            most("lease_transitions"),
        ),
        Panel(
            title="Silence of the API server",
            means="Time since it last told anything: more than 140 s is an outage.",
            queries=(Query(most("kube_last_heard_age_seconds", "resource"), "{{resource}}"),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Requests to the API server",
            means="A second, by status; `none` without an answer.",
            queries=(Query(rate("kube_requests_total", "code"), "{{code}}"),),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Lists",
            means="Lists begun: one at the start, and one for each version that was forgotten.",
            queries=(
                Query(f"sum by (resource) ({masters('kube_relists_total')})", "{{resource}}"),
            ),
        ),
        Panel(
            title="Watches that broke",
            means="By reason; `ended` is the usual one.",
            queries=(Query(happened("kube_reconnects_total", "reason"), "{{reason}}"),),
        ),
        Panel(
            title="Writes",
            means="Writes to the cluster by result; `denied` means a right is missing.",
            queries=(Query(happened("kube_writes_total", "result"), "{{result}}"),),
        ),
        Panel(
            title="Writes that wait",
            means="Or are under way: they wait for the API server, or for --kube-qps.",
            queries=(Query(most("kube_writes_waiting", "manager"), "{{manager}}"),),
        ),
    ),
    in_kubernetes=True,
)
INTERNALS = Board(
    "internals",
    "Service internals",
    "How the masters themselves are.",
    (_PROCESS, _ENGINE, _HTTP, _MANAGER, _KUBERNETES),
)
