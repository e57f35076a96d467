"""Every generated section of the documentation, one row each."""

from docs.tables import settings
from docs.tables.section import Section
from master.settings import MasterSettings
from worker.settings import WorkerSettings

SECTIONS = (
    Section("docs/master.md", "settings", lambda: settings.render(MasterSettings)),
    Section("docs/worker.md", "settings", lambda: settings.render(WorkerSettings)),
)
