"""Is the forest true, is it fresh, is it whole."""

from monitoring.dashboards.board import (
    Board,
    Panel,
    Query,
    Section,
    Unit,
    masters,
    most,
    number,
    rates,
    told,
    total,
)

_TRUE = Section(
    "Is it true?",
    (
        number(
            "Tree shown",
            "Whether a master shows the forest: all that it waits for have spoken.",
            most("ready"),
            unit=Unit.YES,
        ),
        number(
            "Sources that fail",
            "Sources that give no good answer now; what they said last stays.",
            total("source_failing", "source"),
            bad_from=1,
        ),
        number(
            "Contradictions",
            "Statements that cannot both hold, such as cables against the cluster manager's list.",
            total("conflicts", "code"),
            bad_from=1,
        ),
        number(
            "Warnings",
            "What is wrong with how the masters are run: files, tokens, rights.",
            total("warnings", "code"),
            bad_from=1,
        ),
        number(
            "Doubts",
            "What is odd about sources although they answer: refused reports, doubted files.",
            total("source_warnings", "source"),
            bad_from=1,
        ),
        number("Masters", "Masters that Prometheus reaches.", f"count({masters('ready')})"),
    ),
)
_FRESH = Section(
    "Is it fresh?",
    (
        number(
            "Silent nodes",
            "Nodes without a word from a worker: it was lost, or never came.",
            total("node_reasons", "reason", 'reason=~"worker-stale|no-worker"'),
            bad_from=1,
        ),
        number(
            "Age of a kept tree",
            "How old what is shown is where no source has spoken since a restart, else 0.",
            most("restored_age_seconds"),
            unit=Unit.SECONDS,
            bad_from=60,
        ),
        told(
            "Time since the last good answer",
            "For each source; a file that does not change is read once and grows old.",
            "source_age_seconds",
            "source",
            unit=Unit.SECONDS,
        ),
        rates(
            "Reports of workers",
            "Reports a second by what became of them; all but `taken` were refused.",
            "reports_total",
            "result",
        ),
    ),
)
_WHOLE = Section(
    "Is it whole?",
    (
        number("Ready nodes", "Nodes that jobs may get.", most("nodes", more='status="Ready"')),
        number(
            "Nodes that are not Ready",
            "`topo nodes --status notready` has each with its reason.",
            most("nodes", more='status="NotReady"'),
            bad_from=1,
        ),
        number(
            "Unplaced nodes",
            "Known nodes that are in no group.",
            most("unplaced_nodes"),
            bad_from=1,
        ),
        number(
            "Whole groups",
            "Groups of each kind with all of their members Ready.",
            most("groups", "kind", 'status="Ready"'),
            width=6,
            legend="{{kind}}",
        ),
        number(
            "Degraded groups",
            "Groups of each kind that miss a member, or have a broken one.",
            most("groups", "kind", 'status="NotReady"'),
            bad_from=1,
            width=6,
            legend="{{kind}}",
        ),
        told(
            "Why nodes are not Ready",
            "Nodes by each of their reasons; docs/operations.md has the next step for each.",
            "node_reasons",
            "reason",
            width=12,
        ),
        told("Nodes", "Nodes by status, in groups and outside.", "nodes", "status", width=6),
        Panel(
            title="Changes of the forest",
            means="How often another forest was published: a flapping cable shows here.",
            queries=(Query(f"max(changes({masters('generation')}[$__rate_interval]))", "changes"),),
            width=6,
        ),
    ),
)
OVERVIEW = Board(
    "overview",
    "Overview",
    "Is the forest of supernodes true, is it fresh, is it whole.",
    (_TRUE, _FRESH, _WHOLE),
)
