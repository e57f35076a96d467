"""The admission webhook of a master, composed from its parts; no I/O."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace

import prometheus_client as prom
from aiohttp import web

from master.admission import ADMISSION
from master.admission.keeper import CertificateKeeper, CertificateObjects
from master.admission.metrics import AdmissionMetrics
from master.admission.rotation import Rotation
from master.admission.server import ANSWERS_BYTES, CONNECTIONS, admission_app
from master.admission.tiers import KnownTiers
from master.admission.volcano_config_check import ConfigMapName, SchedulerConfigReader
from master.controllers.table import HYPERNODES
from master.kube.client import Caller
from master.settings import MasterSettings
from topo.gangs.admission.outcome import Rules
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.terms import Way
from topo.kit.serving.connections import Connections
from topo.kit.tls import empty_server_context

_NO_HYPERNODES = "this master writes no HyperNodes (--controllers=hypernodes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The webhook's application, its certificate, and the tasks that keep both current."""

    app: web.Application
    tls: ssl.SSLContext
    connections: Connections
    keeper: CertificateKeeper
    reader: SchedulerConfigReader
    tiers: KnownTiers


def build_admission(
    settings: MasterSettings,
    client: Caller,
    registry: prom.CollectorRegistry,
    *,
    tiers: KnownTiers,
    acts: Callable[[], bool],
    clock: Callable[[], float],
) -> Admission:
    """Build the parts of the webhook; nothing is served yet.

    `acts` returns whether this master leads. `tiers` are the tiers of the HyperNodes.
    """
    metrics, tls = AdmissionMetrics(registry), empty_server_context()
    names = _names(ADMISSION, settings.pod_namespace)
    is_own = settings.admission_certificates == "own"
    resources = settings.policy.gpu_resources
    reader = SchedulerConfigReader(
        client, ConfigMapName(*settings.volcano_config), resources, registry
    )
    rules = Rules(
        keys=AnnotationKeys(settings.domain), gpu_resources=resources, way=Way(settings.placement)
    )
    no_tree = "" if HYPERNODES in settings.controllers else _NO_HYPERNODES

    def rules_now() -> Rules:
        return replace(rules, tiers=tiers.now(), unheeded=no_tree or reader.unheeded)

    return Admission(
        app=admission_app(rules_now, settings.admission_invalid, metrics),
        tls=tls,
        connections=Connections("admission", CONNECTIONS, ANSWERS_BYTES),
        keeper=CertificateKeeper(
            client,
            CertificateObjects(
                namespace=settings.pod_namespace,
                secret=ADMISSION,
                configuration=ADMISSION,
            ),
            tls,
            names=names[:1],
            rotation=Rotation(names=names) if is_own else None,
            acts=acts,
            metrics=metrics,
            clock=clock,
        ),
        reader=reader,
        tiers=tiers,
    )


def _names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the DNS names of the Service; the first is the one that API servers use."""
    full = f"{service}.{namespace}.svc"
    return full, f"{full}.cluster.local", f"{service}.{namespace}", service
