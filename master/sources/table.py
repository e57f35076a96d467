"""The table of sources. A new source is one file in this package and one row here."""

from collections.abc import Mapping, Sequence

from master.sources import config_file
from master.sources.cluster_manager import source as cluster_manager
from master.sources.fabric import source as fabric
from master.sources.row import SourceContext, SourceRow
from topo.discovery.sources import REPORTED
from topo.kit.tasks import Work

SOURCE_ROWS = (
    config_file.ROW,
    SourceRow(REPORTED),
    cluster_manager.ROW,
    fabric.ROW,
)


def source_works(rows: Sequence[SourceRow], context: SourceContext) -> Mapping[str, Work]:
    """Return the background work of every source that is asked in the mode, by name."""
    settings = context.settings
    return {
        row.source.name: row.start(context)
        for row in rows
        if row.start is not None and (settings.uses(row.source) or row.also(settings))
    }
