"""The port that schedulers ask, as the other parts of a master see it."""

from dataclasses import dataclass

from aiohttp import web

from master.extender.plans import ExtenderPlans
from master.extender.quota import GpuQuota
from master.extender.tls import ExtenderTls
from master.kube.objects import ConfigMapObject
from master.kube.reflector import Reflector
from topo.kit.serving.connections import Connections


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderPort:
    """The application, its connections, and what runs in the background for it.

    `tls` is None where the port speaks plain HTTP. `is_open`: anybody who reaches it may ask.
    """

    app: web.Application
    tls: ExtenderTls | None
    is_open: bool
    connections: Connections
    plans: ExtenderPlans
    quota: GpuQuota
    config_map: Reflector[ConfigMapObject]
