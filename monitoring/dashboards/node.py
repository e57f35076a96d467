"""One node, as its worker sees it."""

from monitoring.dashboards.board import WORKER, Board, Panel, Query, Section, Unit, number


def _worker(metric: str, more: str = "") -> str:
    return f"topo_worker_{metric}{{{WORKER}{',' if more else ''}{more}}}"


_DOWN = _worker("link_ports", 'state="down"')
_ERRORS = f"increase({_worker('link_errors_total')}[$__rate_interval])"


_HARDWARE = Section(
    "Hardware",
    (
        number("GPUs", "GPUs that its probes see.", f"sum({_worker('gpus')})"),
        number(
            "Links that are down",
            "Interconnect ports of its GPUs that carry no link.",
            f"sum({_DOWN})",
            bad_from=1,
        ),
        number(
            "Slow links",
            "Ports that are up and far slower than their siblings.",
            f"sum({_worker('link_ports_degraded')})",
            bad_from=1,
        ),
        number("Neighbours", "Remote servers that it sees.", f"sum({_worker('peers')})"),
        number(
            "Last report",
            "Time since the master last took a report of it.",
            f"time() - max({_worker('last_report_timestamp_seconds')})",
            unit=Unit.SECONDS,
            bad_from=60,
            width=8,
        ),
        Panel(
            title="GPUs by health",
            means="`unknown`: no probe says anything of their health.",
            queries=(Query(f"sum by (health) ({_worker('gpus')})", "{{health}}"),),
            width=12,
        ),
        Panel(
            title="Links by state",
            means="Interconnect ports of its GPUs.",
            queries=(Query(f"sum by (state) ({_worker('link_ports')})", "{{state}}"),),
            width=12,
        ),
        Panel(
            title="Errors on links",
            means="What the driver counts on the links of its GPUs; docs/metrics.md has the kinds.",
            queries=(Query(f"sum by (kind) ({_ERRORS})", "{{kind}}"),),
            width=12,
        ),
        Panel(
            title="Links with the most errors",
            means="The five of them on which most was counted, by GPU and link.",
            queries=(
                Query(f"topk(5, sum by (gpu, link) ({_ERRORS}))", "GPU {{gpu}} link {{link}}"),
            ),
            width=12,
        ),
    ),
)
_PROBES = Section(
    "Probes",
    (
        Panel(
            title="State of the probes",
            means="1 for the state that a probe's last reading had.",
            queries=(
                Query(
                    f"max by (probe, state) ({_worker('probe_state')}) == 1", "{{probe}} {{state}}"
                ),
            ),
        ),
        Panel(
            title="Time of a reading",
            means="99 of 100 readings of each probe took no longer.",
            queries=(
                Query(
                    "histogram_quantile(0.99, sum by (le, probe)"
                    f" (rate({_worker('probe_duration_seconds_bucket')}[$__rate_interval])))",
                    "{{probe}}",
                ),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Readings",
            means="Readings by outcome: `failed` and `timed-out` ones give nothing.",
            queries=(
                Query(
                    "sum by (state)"
                    f" (increase({_worker('probe_readings_total')}[$__rate_interval]))",
                    "{{state}}",
                ),
            ),
        ),
    ),
)
_WORKER = Section(
    "Worker",
    (
        Panel(
            title="Reports",
            means="Reports that the master took, by kind.",
            queries=(
                Query(
                    f"sum by (kind) (increase({_worker('reports_total')}[$__rate_interval]))",
                    "{{kind}}",
                ),
            ),
        ),
        Panel(
            title="Reports that may not have arrived",
            means="By reason; docs/worker.md says what each is.",
            queries=(
                Query(
                    "sum by (reason)"
                    f" (increase({_worker('report_failures_total')}[$__rate_interval]))",
                    "{{reason}}",
                ),
            ),
        ),
        Panel(
            title="Memory",
            means="Resident memory of the worker.",
            queries=(Query(f"process_resident_memory_bytes{{{WORKER}}}", "resident"),),
            unit=Unit.BYTES,
        ),
    ),
)
NODE = Board(
    "node",
    "Node",
    "One node as its worker sees it: GPUs, links, probes.",
    (_HARDWARE, _PROBES, _WORKER),
    of_a_node=True,
)
