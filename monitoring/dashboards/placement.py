"""What was asked for, what was given, and why gangs wait."""

from monitoring.dashboards.board import (
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
)

_PROVEN = f"sum({masters('placements_proven_total')})"
_FOUND = "sum({})".format(masters("placements_total", 'result="feasible"'))
_PLACEMENTS = Section(
    "Placements",
    (
        Panel(
            title="Placements asked for",
            means="By result; what does not fit by the first test that failed.",
            queries=(
                Query(happened("placements_total", "result, failed"), "{{result}} {{failed}}"),
            ),
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
        Panel(
            title="What became of holds",
            means="`expired` ones were asked for and not used; `strayed` pods went elsewhere.",
            queries=(Query(happened("hold_events_total", "event"), "{{event}}"),),
            width=12,
        ),
        Panel(
            title="Holds that were not given",
            means="By what stood against them.",
            queries=(Query(happened("holds_declined_total", "obstacle"), "{{obstacle}}"),),
            width=12,
        ),
    ),
)
_GANGS = Section(
    "Gangs",
    (
        Panel(
            title="Where gangs stand",
            means="Gangs by their reason; `topo gangs` lists them, `topo why JOB` explains one.",
            queries=(Query(most("gangs", "reason"), "{{reason}}"),),
            width=12,
        ),
        Panel(
            title="Longest wait",
            means="For how long the gang that has stood there longest has done so.",
            queries=(Query(most("gang_longest_seconds", "reason"), "{{reason}}"),),
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
        Panel(
            title="Plans",
            means="Placements asked for gangs; `again`: of gangs that lost nodes or a pod.",
            queries=(Query(happened("gang_plans_total", "result"), "{{result}}"),),
        ),
        Panel(
            title="Where pods were bound",
            means="A nomination that was not honoured is `elsewhere`.",
            queries=(Query(happened("gang_pods_bound_total", "where"), "{{where}}"),),
        ),
        Panel(
            title="Gates opened",
            means="`unplanned`: a pod that its scheduler places alone.",
            queries=(Query(happened("gang_gates_opened_total", "how"), "{{how}}"),),
        ),
        Panel(
            title="Writes refused",
            means="Of pods mostly because somebody else wrote first; they are done anew.",
            queries=(Query(happened("gang_writes_lost_total", "what"), "{{what}}"),),
        ),
        Panel(
            title="Does Volcano heed groups",
            means="1 for what the configuration of its scheduler says; docs/volcano.md has why.",
            queries=(Query(most("volcano_groups", "heeding"), "{{heeding}}"),),
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
        Panel(
            title="Objects at the webhook",
            means="Jobs and pods that API servers asked about, by what became of them.",
            queries=(
                Query(happened("admission_reviews_total", "kind, result"), "{{kind}} {{result}}"),
            ),
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
