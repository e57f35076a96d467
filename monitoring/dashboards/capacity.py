"""What is free, and how whole it is: over a night and over a month."""

from monitoring.dashboards.board import (
    Board,
    Look,
    Panel,
    Query,
    Section,
    Unit,
    masters,
    most,
    number,
    told,
)

_STATES = ("used", "held", "cordoned", "free")


def _sum(metric: str) -> str:
    """Return the sum over all types of GPU of the master that counts most."""
    return f"sum({most(metric, 'gpu_type')})"


_GPUS = Section(
    "GPUs",
    (
        number("GPUs", "GPUs that pods may ask for, of all nodes.", _sum("gpus")),
        number("Ready", "GPUs of nodes that are Ready.", _sum("ready_gpus")),
        number("Free", "Free GPUs of open nodes.", _sum("free_gpus")),
        number("Used", "GPUs that bound pods have.", _sum("used_gpus")),
        number("Held", "GPUs that are kept for pods that are not bound.", _sum("held_gpus")),
        number("Cordoned", "GPUs of cordoned nodes that nobody booked.", _sum("cordoned_gpus")),
        Panel(
            title="Where the GPUs are",
            means="Each GPU of a Ready node once: used, held, cordoned or free.",
            queries=tuple(Query(_sum(f"{state}_gpus"), state) for state in _STATES),
            look=Look.STACK,
            width=12,
        ),
        told(
            "Free GPUs by type",
            "Free GPUs of open nodes; a job gets one type.",
            "free_gpus",
            "gpu_type",
            width=12,
        ),
    ),
)
_WHOLENESS = Section(
    "Fragmentation",
    (
        told(
            "Integrity",
            "Share of the free GPUs that lies in whole groups; high is good.",
            "group_integrity_ratio",
            "gpu_type",
            unit=Unit.SHARE,
        ),
        told(
            "Free whole groups",
            "Groups of --canonical-group-size that are free inside groups of each kind.",
            "free_groups",
            "kind",
        ),
        told(
            "Untouched groups",
            "Groups of each kind whose open nodes are all free.",
            "pristine_groups",
            "kind",
        ),
        Panel(
            title="Largest job that fits",
            means="GPUs of the largest job that fits now, in groups of so many GPUs.",
            queries=(
                Query(
                    most("largest_job_gpus", "gpu_type, group_size"),
                    "{{gpu_type}}, groups of {{group_size}}",
                ),
            ),
            width=12,
        ),
        told(
            "Unusable GPUs",
            "Free GPUs that a job of the usual mix is expected to be unable to use.",
            "unusable_gpus",
            "gpu_type",
            width=12,
        ),
    ),
)
_BOOKED = Section(
    "Holds",
    (
        told(
            "Holds",
            "Holds there are: `held` waits for a decision, `committed` for its pods.",
            "holds",
            "state",
        ),
        Panel(
            title="Booked GPUs",
            means="GPUs that holds book.",
            queries=(Query(most("booked_gpus"), "GPUs"),),
        ),
        Panel(
            title="Recounts",
            means="Nodes whose capacity a recount found kept wrongly: it has to stay at 0.",
            queries=(Query(f"sum({masters('capacity_differences_total')})", "differences"),),
        ),
    ),
)
CAPACITY = Board(
    "capacity",
    "Capacity and fragmentation",
    "How many GPUs are free, and how whole the free ones are.",
    (_GPUS, _WHOLENESS, _BOOKED),
)
