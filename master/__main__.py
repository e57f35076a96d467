"""The `topo-master` command."""

import faulthandler
import resource
import sys
from collections.abc import Callable, Sequence
from ssl import SSLContext

from topo.kit.process.extras import needs
from topo.kit.process.signals import exit_on_signal

with exit_on_signal(), needs("master"):
    import structlog
    from aiohttp import web

    from master.app import build_app
    from master.cleanup.command import clean_up_and_tell
    from master.composition.service import build_service
    from master.settings import MasterSettings
    from topo.kit.logs import configure_logs
    from topo.kit.process import collector
    from topo.kit.serving.connections import Connections
    from topo.kit.settings import load
    from topo.kit.tasks import Site, run, serve
    from topo.kit.threads import shorten_switch_interval
    from topo.kit.tls import server_context
    from topo.model.errors import BadInputError

SPARE_FILES = 128
"""Open files other than connections of readers and workers."""

_log = structlog.get_logger(__name__)


@exit_on_signal()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the master until it is stopped, or `cleanup`; return the exit code.

    0 after SIGTERM or SIGINT, 1 when a background task died or another process has a port or the
    state file, 2 for settings and files that cannot be used.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["cleanup"]:
        return run(clean_up_and_tell(load(MasterSettings, words[1:])))
    settings = load(MasterSettings, words)
    try:
        configure_logs(settings, "topo-master")
        sites = _sites(settings)
    except BadInputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    faulthandler.enable()  # where native code breaks, each thread's stack is all that is known
    _fit_to_file_limit(sites)
    warn_of_tokens(settings)
    collector.freeze_startup()
    shorten_switch_interval()
    return run(serve(*sites))


def _sites(settings: MasterSettings) -> tuple[Site, ...]:
    """Return the ports. The API is first: it carries the background work, so it stops last."""
    tls = _tls(settings)
    service = build_service(settings)

    def site(
        app: web.Application,
        port: int,
        connections: Connections,
        tls: SSLContext | Callable[[], SSLContext] | None,
    ) -> Site:
        return Site(
            app=app,
            port=port,
            connections=connections,
            host=settings.bind_address or None,
            name=connections.name,
            tls=tls,
            drain_s=3.0 if connections.name == "api" else 1.0,
            on_malformed=service.metrics.malformed.labels(connections.name).inc,
        )

    app, limits = build_app(service, tls), service.api_limits
    api_tls = tls if settings.tls_scope == "all" else None
    api = site(app, settings.server_port, limits.connections, api_tls)
    workers = service.worker_port.app()
    reports = site(workers, settings.rpc_server_port, service.report_connections, tls)
    sites = [api, reports]
    if (admission := service.admission) is not None:
        port = settings.admission_port
        sites.append(site(admission.app, port, admission.connections, admission.tls))
    if (extender := service.extender) is not None:
        port, its_tls = settings.extender_port, extender.tls
        context = None if its_tls is None else lambda: its_tls.context
        sites.append(site(extender.app, port, extender.connections, context))
    return tuple(sites)


def _tls(settings: MasterSettings) -> SSLContext | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return server_context(settings.tls_cert, settings.tls_key)


def _fit_to_file_limit(sites: Sequence[Site]) -> None:
    """Raise the limit of open files and share it among the ports.

    10,000 workers hold a connection each; the usual soft limit is 1,024 files. No port may use up
    the files that another one and the state need: each gets at most its share of what is left.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY:
        return
    files = max(len(sites), hard - SPARE_FILES)
    for left, site in zip(range(len(sites), 0, -1), sites, strict=True):
        site.connections.lower_limit(files // left)
        files -= site.connections.limit


def warn_of_tokens(settings: MasterSettings) -> None:
    """Log which reports are accepted where no token decides it."""
    if settings.worker_token_file is not None:
        return
    if settings.allow_anonymous_workers:
        _log.warning("worker reports are accepted without a token; anybody can speak for any node")
    elif settings.kube_config is None:
        _log.info("worker reports are refused: there is no --worker-token-file")
    elif settings.worker_account is None:
        lacking = "--worker-token-file nor --pod-namespace"
        _log.info(f"worker reports are refused: there is neither {lacking}")


if __name__ == "__main__":
    sys.exit(main())
