"""Volcano's definitions, its controllers and its scheduler, as its own module has them."""

from collections.abc import Iterator
from typing import Any

import yaml

from tests.e2e.controlplane.core import Files
from tests.e2e.controlplane.processes import Program
from tests.e2e.controlplane.programs import VOLCANO, module_folder

HYPERNODES = "hypernodes.topology.volcano.sh"
NEEDED = (
    HYPERNODES,
    "queues.scheduling.volcano.sh",
    "podgroups.scheduling.volcano.sh",
    "numatopologies.nodeinfo.volcano.sh",
    "jobs.batch.volcano.sh",
    "cronjobs.batch.volcano.sh",
    "commands.bus.volcano.sh",
)
"""What its controllers and its scheduler watch."""
_GPU = "metax-tech.com/gpu"
_SCHEDULING = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}]},
        {
            "plugins": [
                {"name": "predicates"},
                {"name": "proportion"},
                {"name": "nodeorder"},
                {
                    "name": "network-topology-aware",
                    "arguments": {"hypernode.binpack.resources": _GPU},
                },
            ]
        },
    ],
}


def definitions(*names: str) -> Iterator[Any]:
    """The CustomResourceDefinitions of these names."""
    bases = module_folder(VOLCANO, "volcano.sh/volcano") / "config" / "crd" / "volcano" / "bases"
    for name in names:
        plural, _, group = name.partition(".")
        yield yaml.safe_load((bases / f"{group}_{plural}.yaml").read_text())


def programs(files: Files) -> tuple[Program, Program]:
    """Its controllers and its scheduler, with the plugin that reads HyperNodes."""
    scheduling = files.home / "volcano-scheduler.yaml"
    scheduling.write_text(yaml.safe_dump(_SCHEDULING))
    shared = (f"--kubeconfig={files.kubeconfig}", "--leader-elect=false")
    controllers = (
        str(VOLCANO.program("controller-manager")),
        *shared,
        "--controllers=+job-controller,+queue-controller,+pg-controller",
    )
    scheduler = (
        str(VOLCANO.program("scheduler")),
        *shared,
        f"--scheduler-conf={scheduling}",
        "--disable-default-scheduler-config",
        "-v=1",
    )
    return (
        Program("volcano-controllers", controllers, files.log("volcano-controllers")),
        Program("volcano-scheduler", scheduler, files.log("volcano-scheduler")),
    )
