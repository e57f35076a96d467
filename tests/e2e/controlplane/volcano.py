"""Stock Volcano as its own module has it: definitions, webhooks, controllers and scheduler."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane.core import Files, Ports
from tests.e2e.controlplane.processes import Program
from tests.e2e.controlplane.programs import TOOLS, VOLCANO, module_folder
from tests.helm.chart import run
from topo.sim.certificates import Authority

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
NAMESPACE = "volcano-system"
SERVICE = "volcano-admission-service"
ADMISSIONS = ("jobs/mutate", "jobs/validate", "podgroups/validate", "queues/mutate")
"""Of its webhooks those that are on by default and judge what the tests make."""
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
CONFIG_MAP, CONFIG_KEY = "volcano-scheduler-configmap", "volcano-scheduler.conf"
_HTTPS = 443

TOPOLOGY_AWARE: str = yaml.safe_dump(
    {
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
                        "arguments": {"hypernode.binpack.resources": "metax-tech.com/gpu"},
                    },
                ]
            },
        ],
    }
)
"""A configuration of the scheduler with the plugin that reads HyperNodes."""


def vendor_configuration() -> str:
    """The scheduler's configuration of the vendor's manual, out of its ConfigMap."""
    vendor = Path(__file__).parents[1] / "scheduling" / "vendor"
    found = yaml.safe_load((vendor / "volcano-scheduler-supernode.yaml").read_text())
    configuration: str = found["data"][CONFIG_KEY]
    return configuration


def config_map(configuration: str) -> Any:
    """The object in which its chart keeps the scheduler's configuration, of `CONFIG_MAPS`."""
    return {"metadata": {"name": CONFIG_MAP}, "data": {CONFIG_KEY: configuration}}


def definitions(*names: str) -> Iterator[Any]:
    """The CustomResourceDefinitions of these names."""
    bases = module_folder(VOLCANO, "volcano.sh/volcano") / "config" / "crd" / "volcano" / "bases"
    for name in names:
        plural, _, group = name.partition(".")
        yield yaml.safe_load((bases / f"{group}_{plural}.yaml").read_text())


def programs(files: Files, configuration: str) -> tuple[Program, Program]:
    """Its controllers, and its scheduler with this configuration."""
    scheduling = files.home / "volcano-scheduler.yaml"
    scheduling.write_text(configuration)
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


def webhooks(files: Files, ports: Ports) -> Program:
    """The server of its webhooks, which writes its own authority into their configurations."""
    authority = Authority.at(files.home / "pki")
    name = f"{SERVICE}.{NAMESPACE}.svc"
    certificate, key = authority.leaf("volcano-webhooks", name)
    flags = (
        f"--kubeconfig={files.kubeconfig}",
        f"--enabled-admission={','.join(f'/{each}' for each in ADMISSIONS)}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--ca-cert-file={files.ca}",
        f"--listen-address={service_address(ports)}",
        f"--port={_HTTPS}",
        f"--webhook-namespace={NAMESPACE}",
        f"--webhook-service-name={SERVICE}",
    )
    argv = (str(VOLCANO.program("webhook-manager")), *flags)
    return Program("volcano-webhooks", argv, files.log("volcano-webhooks"))


def service_address(ports: Ports) -> str:
    """The ClusterIP of its webhooks, where their server listens."""
    return f"{ports.services}.200"


def webhook_objects(ports: Ports) -> Iterator[tuple[str, Any]]:
    """What its chart makes for the webhooks: path of the collection, and object."""
    yield "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}
    service = {
        "metadata": {"name": SERVICE},
        "spec": {"clusterIP": service_address(ports), "ports": [{"port": _HTTPS}]},
    }
    yield f"/api/v1/namespaces/{NAMESPACE}/services", service
    for each in yaml.safe_load_all(_rendered()):
        if each is not None:
            plural = f"{each['kind'].lower()}s"
            yield f"/apis/admissionregistration.k8s.io/v1/{plural}", each


def _rendered() -> str:
    """Its own chart's configurations of webhooks."""
    chart = module_folder(VOLCANO, "volcano.sh/volcano") / "installer" / "helm" / "chart"
    admissions = "\\,".join(f"/{each}" for each in ADMISSIONS)
    done = run(
        TOOLS.program("helm"),
        *("template", "volcano", str(chart / "volcano"), "--namespace", NAMESPACE),
        *("--show-only", "templates/webhooks.yaml"),
        *("--set-string", f"custom.enabled_admissions={admissions}"),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
