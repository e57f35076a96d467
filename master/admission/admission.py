"""The admission webhook of a master, composed from its parts; no I/O."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import prometheus_client as prom
from aiohttp import web

from master.admission import ADMISSION
from master.admission.keeper import CertificateKeeper, CertificateObjects
from master.admission.metrics import AdmissionMetrics
from master.admission.native_pods import NativePods
from master.admission.rotation import Rotation
from master.admission.server import ANSWERS_BYTES, CONNECTIONS, admission_app
from master.admission.tiers import KnownTiers
from master.admission.volcano_config_check import ConfigMapName, SchedulerConfigReader
from master.controllers.names import HYPERNODES, LABELLING, POD_GROUPS, PROVISIONING
from master.kube.client import Caller
from master.kube.dra.counts import DeviceCounts
from master.kube.dra.gpus import GpuClaims
from master.kube.schedulers.composite_groups import GroupTrees
from master.kube.schedulers.scheduling_groups import SchedulingGroupObject
from master.kube.store import Store
from master.settings import MasterSettings
from topo.gangs.admission.outcome import NamedGroup, Rules
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.terms import Way
from topo.kit.serving.connections import Connections
from topo.kit.tls import empty_server_context
from topo.model.errors import Refusal

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedObjects:
    """What an object names: PodGroups of Kubernetes, claims of devices, the pods of a job.

    `trees` are the PodGroups that are below CompositePodGroups. `native`: pods by their jobs.
    """

    groups: Store[SchedulingGroupObject]
    trees: GroupTrees
    devices: DeviceCounts
    native: NativePods


def build_admission(
    settings: MasterSettings,
    client: Caller,
    registry: prom.CollectorRegistry,
    *,
    tiers: KnownTiers,
    named: NamedObjects,
    acts: Callable[[], bool],
    clock: Callable[[], float],
) -> Admission:
    """Build the parts of the webhook; nothing is served yet.

    `acts` returns whether this master leads. `tiers` are the tiers of the HyperNodes, `named`
    what objects name.
    """
    metrics, tls = AdmissionMetrics(registry), empty_server_context()
    names = _names(ADMISSION, settings.pod_namespace)
    is_own = settings.admission_certificates == "own"
    volcano_config = ConfigMapName(*settings.volcano_config)
    reader = SchedulerConfigReader(client, volcano_config, settings.policy.gpu_resources, registry)
    rules = _rules(settings, tiers, named, reader)
    return Admission(
        app=admission_app(rules, settings.admission_invalid, metrics),
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


def _rules(
    settings: MasterSettings,
    tiers: KnownTiers,
    named: NamedObjects,
    reader: SchedulerConfigReader,
) -> Callable[[], Rules]:
    """Return what returns the rules of this master as they are now."""
    makes_groups = POD_GROUPS in settings.controllers
    no_tree = "" if HYPERNODES in settings.controllers else _NO_HYPERNODES
    claims = GpuClaims(named.devices, settings.policy.gpu_resources)
    keys = AnnotationKeys(settings.domain)
    fixed = Rules(
        keys=keys,
        takes_requests=PROVISIONING in settings.controllers,
        holds_jobs=settings.hold_before_quota,
        gpu_resources=settings.policy.gpu_resources,
        way=Way(settings.placement),
        label_keys=settings.label_keys if {*LABELLING} & {*settings.controllers} else {},
        named_group=partial(_named_group, named.groups, named.trees, keys),
        claim_template=claims.of_template,
        shared_claim=claims.of_claim,
        native_group=named.native.group,
        has_old_pods=named.native.has_old_pods,
    )
    return lambda: replace(
        fixed,
        tiers=tiers.now(),
        unheeded=no_tree or reader.unheeded,
        makes_groups=makes_groups and named.groups.synced,
    )


def _named_group(
    groups: Store[SchedulingGroupObject],
    trees: GroupTrees,
    keys: AnnotationKeys,
    *key: str,
) -> NamedGroup | None:
    """Return a PodGroup of Kubernetes as admission reads it; None for one that is not known.

    None as well for one below a CompositePodGroup that asks for groups and is not whole yet.
    """
    namespace, name = key
    found = groups.objects.get((namespace, name))
    if found is None:
        return None
    annotations, parent = found.metadata.annotations, found.spec.parent_composite_pod_group_name
    if not parent:
        return NamedGroup(annotations, found.min_count)
    root = trees.root_of(namespace, parent)
    if root is None:
        return None
    asked = root.metadata.annotations
    if keys.size not in asked:
        what = f"the PodGroup {name} asks for groups, and is below a CompositePodGroup"
        where, fix = f"metadata.annotations[{keys.size}]", f"annotate {root.metadata.name} instead"
        return NamedGroup(annotations, found.min_count, Refusal(what, where, fix))
    tree = trees.tree(namespace, root)
    return NamedGroup(asked, found.min_count, tree) if tree is not None else None


def _names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the DNS names of the Service; the first is the one that API servers use."""
    full = f"{service}.{namespace}.svc"
    return full, f"{full}.cluster.local", f"{service}.{namespace}", service
