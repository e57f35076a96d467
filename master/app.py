"""The application of the API port, which also runs the background work, and the order
of its parts.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from importlib.metadata import metadata
from ssl import SSLContext

import structlog
from aiohttp import web

from master.api.events.booking_events import CapacityEvents, hold_event
from master.api.events.step_events import StepEventCache
from master.api.events.stream import STEP_EVENTS
from master.api.health import DOCS, VERSION, documentation
from master.api.openapi import openapi_route
from master.api.replica import get_replica, get_replica_sources
from master.api.route import add_routes, count_answers
from master.api.routes import ROUTES
from master.certificate import renewal
from master.composition.api_limits import MAX_BODY_BYTES
from master.composition.cluster_works import cluster_works, open_client
from master.replicas import source_states
from master.replicas.follower import PATH
from master.replicas.replicas import add_age_header, leader_connection
from master.service import SERVICE, Service
from master.sources.row import SourceContext
from master.sources.table import source_works
from master.state_restore import restore, show_copy, show_kept
from master.tree.engine import Clock, EventSink
from master.wiring.check import NotedDumps
from topo.kit.files import LOOK_S
from topo.kit.process import collector
from topo.kit.serving.problem import problems
from topo.kit.tasks import Work, background
from topo.kit.threads import off_loop
from topo.placement.booking.events import HoldChange

LAG_SAMPLE_S = 0.5
ALL_ROUTES = (*ROUTES, openapi_route(ROUTES))

_log = structlog.get_logger(__name__)


def build_app(service: Service, tls: SSLContext | None = None) -> web.Application:
    """Return the API's application with all background work; no I/O.

    `tls` is the context whose certificate is renewed when its files change.
    """
    works = _works(service, tls)
    service.placements.state.on_hold = partial(_tell_hold, service)
    app = web.Application(middlewares=[count_answers, problems], client_max_size=MAX_BODY_BYTES)
    app[SERVICE] = service
    about = metadata("supernode-topology")
    app[VERSION] = about["Version"]
    app[DOCS] = documentation(about.get_all("Project-URL") or ())
    app[STEP_EVENTS] = StepEventCache()
    add_routes(app, ALL_ROUTES)
    if service.replicas is not None:
        app.router.add_get(PATH, get_replica)
        app.router.add_get(source_states.PATH, get_replica_sources)
        app.on_response_prepare.append(partial(add_age_header, service.replicas))
    app.cleanup_ctx.append(partial(open_client, service))
    app.cleanup_ctx.append(partial(leader_connection, service.replicas))
    app.cleanup_ctx.append(_restored_state)
    app.cleanup_ctx.append(background(lambda _: works))
    app.on_shutdown.append(_end_streams)
    return app


def _tell_hold(service: Service, change: HoldChange) -> None:
    """Publish a change of a hold to event streams, if there are listeners."""
    placements = service.placements
    if placements.feed.listeners:
        placements.feed.add(hold_event(change, placements.state.clock()))


async def _restored_state(app: web.Application) -> AsyncIterator[None]:
    """Restore the kept state before anything else runs; a follower does when it leads.

    Until then it shows the copy of its own, where it has one.
    """
    service = app[SERVICE]
    service.replica.restore = partial(restore, service)
    try:
        if service.replica.role.acts:
            await service.replica.restored()
        await show_copy(service)
        yield
    finally:
        if service.saver is not None:
            await service.saver.end()
        if service.state_copy is not None:
            await service.state_copy.close()


async def _end_streams(app: web.Application) -> None:
    app[SERVICE].engine.history.close()


def _works(service: Service, tls: SSLContext | None) -> Mapping[str, Work]:
    settings, engine = service.settings, service.engine
    works: dict[str, Work] = {
        "engine": engine.run,
        "collector": collector.collect_often,
        "history": service.past.run,
        "placements": service.placements.maintenance.run,
        "capacity-events": CapacityEvents(
            service.placements.feed, service.topology.view, lambda: engine.history.run_id
        ).run,
        "loop-lag": partial(_measure_lag, service, engine.clock),
        "role": partial(service.replica.run, _for_ever),
    }
    sink: EventSink = engine
    if service.wiring is not None:
        sink = NotedDumps(engine, service.wiring)
        works["wiring-plan"] = partial(service.replica.run, service.wiring.run)
    context = SourceContext(settings, sink, service.registry, service.sweeps, engine.clock)
    for name, work in source_works(service.source_rows, context).items():
        works[name] = partial(service.replica.run, work)
    if service.saver is not None:
        works["state-file"] = partial(service.replica.run, service.saver.run)
    if service.state_copy is not None:
        works["state-copy"] = service.state_copy.run
    if service.booking_log is not None:
        works["booking-log"] = service.booking_log.run
    for kind, file in service.port_tokens.files.items():
        works[f"tokens of {kind.whose}"] = file.follow
    works |= cluster_works(service)
    if service.replicas is not None:
        works |= service.replicas.works(partial(show_kept, service))
    if tls is not None and settings.tls_cert is not None and settings.tls_key is not None:
        pair = settings.tls_cert, settings.tls_key
        renew = renewal(service.file_warnings, tls, pair, service.metrics.certificate_lasts)
        works["certificate"] = partial(_every, LOOK_S, renew)
    if service.extender is not None and service.extender.tls is not None:
        works["extender-tls"] = partial(_every, LOOK_S, service.extender.tls.renew)
    return works


async def _every(interval_s: float, call: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(interval_s)
        await off_loop(call)


async def _measure_lag(service: Service, clock: Clock) -> None:
    while True:
        asked_s = clock()
        await asyncio.sleep(LAG_SAMPLE_S)
        service.engine_metrics.loop_lag.observe(max(0.0, clock() - asked_s - LAG_SAMPLE_S))


async def _for_ever() -> None:
    await asyncio.Event().wait()
