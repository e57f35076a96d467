"""What was asked for, what was given, and why gangs wait."""

from monitoring.dashboards.board import (
    Board,
    Panel,
    Section,
    Unit,
    counted,
    masters,
    most,
    number,
    quantiles,
    told,
)

_PROVEN = f"sum({masters('placements_proven_total')})"
_FOUND = "sum({})".format(masters("placements_total", 'result="feasible"'))
_PLACEMENTS = Section(
    "Placements",
    (
        counted(
            "Placements asked for",
            "By result; what does not fit by the first test that failed.",
            "placements_total",
            "result, failed",
        ),
        Panel(
            title="Time to place",
            means="Time to find a placement, without words and HTTP.",
            queries=quantiles("placement_seconds"),
            unit=Unit.SECONDS,
        ),
        number(
            "Proven the best",
            "Share of the placements found of which each number is proven the best there is.",
            f"{_PROVEN} / {_FOUND}",
            unit=Unit.SHARE,
            width=8,
        ),
        counted(
            "What became of holds",
            "`expired` ones were asked for and not used; `strayed` pods went elsewhere.",
            "hold_events_total",
            "event",
            width=12,
        ),
        counted(
            "Holds that were not given",
            "By what stood against them.",
            "holds_declined_total",
            "obstacle",
            width=12,
        ),
    ),
)
_GANGS = Section(
    "Gangs",
    (
        told(
            "Where gangs stand",
            "Gangs by their reason; `topo gangs` lists them, `topo why JOB` explains one.",
            "gangs",
            "reason",
            width=12,
        ),
        told(
            "Longest wait",
            "For how long the gang that has stood there longest has done so.",
            "gang_longest_seconds",
            "reason",
            unit=Unit.SECONDS,
            width=12,
        ),
        Panel(
            title="From creation to an open gate",
            means="One sample for each pod.",
            queries=quantiles("gang_gate_seconds"),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Time of a decision",
            means="Time that a decision on a gang took, its hold included.",
            queries=quantiles("gang_decision_seconds"),
            unit=Unit.SECONDS,
        ),
        counted(
            "Plans",
            "Placements asked for gangs; `again`: of gangs that lost nodes or a pod.",
            "gang_plans_total",
            "result",
        ),
        counted(
            "Where pods were bound",
            "A nomination that was not honoured is `elsewhere`.",
            "gang_pods_bound_total",
            "where",
        ),
        counted(
            "Gates opened",
            "`unplanned`: a pod that its scheduler places alone.",
            "gang_gates_opened_total",
            "how",
        ),
        counted(
            "Writes refused",
            "Of pods mostly because somebody else wrote first; they are done anew.",
            "gang_writes_lost_total",
            "what",
        ),
        told(
            "Does Volcano heed groups",
            "1 for what the configuration of its scheduler says; docs/volcano.md has why.",
            "volcano_groups",
            "heeding",
        ),
        number(
            "Nobody places",
            "Time for which no master has placed gangs; gates open after --gate-timeout.",
            most("gangs_unattended_seconds"),
            unit=Unit.SECONDS,
            bad_from=60,
            width=8,
        ),
        number(
            "Pods without a gate",
            "Pods that ask for groups and were made past the webhook: nobody places them.",
            most("gang_pods_without_gate"),
            bad_from=1,
            width=8,
        ),
        counted(
            "Objects at the webhook",
            "Jobs and pods that API servers asked about, by what became of them.",
            "admission_reviews_total",
            "kind, result",
        ),
        Panel(
            title="Time at the webhook",
            means="Time to judge one object, without HTTP.",
            queries=quantiles("admission_review_seconds"),
            unit=Unit.SECONDS,
        ),
    ),
    in_kubernetes=True,
)
PLACEMENT = Board(
    "placement",
    "Placement and gangs",
    "What was asked for, what was given, and why gangs wait.",
    (_PLACEMENTS, _GANGS),
)
