"""The counters of links that a worker reports: those that are not zero, by the names of the links.

Which of them speak against a link is for the master to say; a counter that did not move since the
last report is in the next one again, so that one that is missing was reset.
"""

from collections.abc import Iterable

from topo.model.machine import (
    MAX_COUNT,
    MAX_LINK_COUNTS,
    LinkCount,
    LinkErrors,
    PortErrors,
    gpu_link,
    hca_port,
)


def link_counts(errors: Iterable[LinkErrors | PortErrors]) -> tuple[LinkCount, ...]:
    """Return the counters in the order given, at most `MAX_LINK_COUNTS`. O(counters)."""
    found = [
        LinkCount(_name(each), each.kind.value, min(each.count, MAX_COUNT))
        for each in errors
        if each.count
    ]
    return tuple(found[:MAX_LINK_COUNTS])


def _name(each: LinkErrors | PortErrors) -> str:
    if isinstance(each, PortErrors):
        return hca_port(each.hca, each.port)
    return gpu_link(each.gpu, each.link)
