"""Every generated section of the documentation, one row each."""

from functools import partial

from docs.tables import (
    api,
    chart,
    commands,
    conditions,
    evidence,
    gang_states,
    label_families,
    limits,
    metrics,
    modules,
    outputs,
    rights,
    settings,
    sizing,
    versions,
)
from docs.tables.section import Section
from master.settings import MasterSettings
from topo.model.conditions.catalogue import PAGE, TABLES
from worker.settings import WorkerSettings

_GANGS = "docs/how-placement-reaches-the-scheduler.md"
SECTIONS = (
    Section("docs/api.md", "calls", api.calls),
    Section("docs/api.md", "job-fields", api.job_fields),
    Section("docs/cli.md", "commands", commands.render),
    Section("docs/suspicion.md", "evidence", evidence.render),
    Section(_GANGS, "gang-states", gang_states.states),
    Section(_GANGS, "job-events", gang_states.job_events),
    Section("docs/labels.md", "label-families", label_families.render),
    Section("docs/master.md", "settings", lambda: settings.render(MasterSettings)),
    Section("helm/supernode-topology/README.md", "values", chart.values_table),
    Section("docs/worker.md", "settings", lambda: settings.render(WorkerSettings)),
    Section("docs/metrics.md", "master", partial(metrics.render, "master")),
    Section(
        "docs/metrics.md",
        "master-group-metrics",
        partial(metrics.render, "master", "--group-metrics"),
    ),
    Section(
        "docs/metrics.md",
        "master-switchbox",
        partial(metrics.render, "master", "switchbox mode"),
    ),
    Section(
        "docs/metrics.md", "master-kubernetes", partial(metrics.render, "master", "Kubernetes")
    ),
    Section("docs/metrics.md", "worker", partial(metrics.render, "worker")),
    *(Section(PAGE, table.section, partial(conditions.render, table)) for table in TABLES),
    Section("docs/outputs.md", "outputs-read", outputs.read),
    Section("docs/outputs.md", "around-outputs", outputs.around),
    Section("docs/outputs.md", "outputs-named", outputs.named),
    Section("docs/compatibility.md", "versions", versions.render),
    Section("docs/limits.md", "sizes", limits.render),
    Section("docs/sizing.md", "sizing", sizing.render),
    Section("docs/kubernetes.md", "rights", rights.render),
    Section("docs/modules.md", "modules", modules.render),
)
