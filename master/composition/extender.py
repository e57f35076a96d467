"""The port that schedulers ask, of a master in a cluster."""

from aiohttp import web

from master.availability import Availability
from master.booking.ahead import AheadBudget
from master.cluster import Cluster
from master.composition.core import Core
from master.extender.answers import Extender
from master.extender.callers import Callers
from master.extender.metrics import ExtenderMetrics
from master.extender.plans import ExtenderPlans
from master.extender.port import ExtenderPort
from master.extender.quota import GpuQuota
from master.extender.server import extender_app, extender_connections
from master.extender.tls import ExtenderTls
from master.kube.objects import CONFIG_MAPS, ConfigMapObject
from master.kube.reflector import Reflector
from master.replicas.replicas import Replicas
from master.sources.kubernetes.capacity import ClusterCapacity
from master.sources.kubernetes.device_config import config_map_scope
from topo.kit.addresses import is_loopback


def build_extender(
    core: Core,
    cluster: Cluster | None,
    capacity: ClusterCapacity | None,
    availability: Availability,
    *,
    replicas: Replicas | None,
    ahead: AheadBudget,
) -> ExtenderPort | None:
    """Return the port; None where it is switched off. Raises `BadInputError` for its TLS files.

    `ahead`: what namespaces may keep.
    """
    settings = core.settings
    if settings.extender == "off" or cluster is None or capacity is None:
        return None
    config_map, quota = _quota(core, cluster)
    plans = ExtenderPlans(
        pods=cluster.pods,
        nodes=cluster.nodes,
        state=core.placements.state,
        is_counted=lambda: availability.may_place and cluster.quotas.is_answered,
        ahead=ahead,
        server_now=cluster.client.server_clock.now,
        errors=core.object_errors,
    )
    capacity.add_hold_source(plans)
    metrics = ExtenderMetrics(core.registry)
    tls = _tls(core, metrics)
    callers = _callers(core, tls, replicas)
    extender = Extender(
        cluster.pods,
        plans,
        quota,
        policy=settings.policy,
        metrics=metrics,
        shared_cards=core.placements.state.cards.snapshot,
        unavailable=availability.uncounted,
    )
    return ExtenderPort(
        app=extender_app(
            extender, replicas.questions.ask if replicas is not None else None, callers
        ),
        tls=tls,
        is_open=callers is None and not is_loopback(settings.bind_address),
        connections=extender_connections(),
        plans=plans,
        quota=quota,
        config_map=config_map,
    )


def _tls(core: Core, metrics: ExtenderMetrics) -> ExtenderTls | None:
    settings = core.settings
    if settings.extender_pair is None:
        return None
    return ExtenderTls(
        settings.extender_pair,
        settings.extender_client_ca,
        warnings=core.file_warnings,
        lasts=metrics.certificate_lasts,
    )


def _callers(core: Core, tls: ExtenderTls | None, replicas: Replicas | None) -> Callers | None:
    """Return who may ask; None where anybody may."""
    if tls is None or core.settings.extender_client_ca is None:
        return None
    return Callers(
        context=lambda: tls.context,
        names=frozenset(core.settings.extender_client_names),
        is_master=_nobody if replicas is None else replicas.credential.admits,
    )


async def _nobody(_: web.Request) -> bool:
    return False


def _quota(core: Core, cluster: Cluster) -> tuple[Reflector[ConfigMapObject], GpuQuota]:
    """Return the ConfigMap of the quotas of cards, and what counts them."""
    settings = core.settings
    config_map = Reflector(
        cluster.client,
        CONFIG_MAPS,
        metrics=cluster.metrics,
        scope=config_map_scope(*settings.gpu_quota),
        label="quotas",
        clock=core.clock,
        errors=core.object_errors,
    )
    quota = GpuQuota(
        config_map=config_map,
        pods=cluster.pods,
        nodes=cluster.nodes,
        labels=(settings.gpu_model_label, settings.gpu_pool_label),
        clock=core.clock,
    )
    return config_map, quota
