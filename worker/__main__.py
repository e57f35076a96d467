"""The `topo-worker` command."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from topo.kit.process.extras import needs
from topo.kit.process.signals import ENDING, exit_on_signal

with exit_on_signal(), needs("worker"):
    import structlog

    from topo.kit.addresses import is_loopback
    from topo.kit.logs import configure_logs
    from topo.kit.serving.connections import Connections
    from topo.kit.settings import load
    from topo.kit.tasks import Site, on_signals, run, serve
    from topo.model.errors import BadInputError
    from worker.app import build_agent, build_app, identity_of
    from worker.replay import open_replay
    from worker.settings import WorkerSettings

CONNECTION_LIMIT = 64
"""Connections of the port of /metrics and /health: a scraper and a kubelet have one each."""
UNREAD_LIMIT_BYTES = 4 * 1024 * 1024
"""Budget for unread pages; a page has some 20 KB."""

_log = structlog.get_logger(__name__)


@exit_on_signal()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the worker until a signal stops it, or record a bundle. Return the exit code.

    0 after SIGTERM, SIGINT or a recording, 1 when background work died or the port is taken, 2 for
    settings that cannot be used.
    """
    settings = load(WorkerSettings, sys.argv[1:] if argv is None else argv)
    try:
        configure_logs(settings, "topo-worker")
        if settings.record is not None:
            return _record(settings)
        replay = None if settings.replay is None else open_replay(settings.replay)
    except BadInputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    warn(settings)
    agent = build_agent(settings, replay)
    site = Site(
        app=build_app(agent),
        port=settings.metrics_port,
        connections=Connections("metrics", CONNECTION_LIMIT, UNREAD_LIMIT_BYTES),
        host=settings.metrics_host,
        name="metrics",
        drain_s=0.25,
        on_malformed=agent.metrics.malformed.inc,
    )
    return run(serve(site))


def _record(settings: WorkerSettings) -> int:
    # Only people who record pay for these imports.
    from worker.probes.catalogue import probes  # noqa: PLC0415 - see above
    from worker.record import anonymised, claim_folder, record, save, user_names  # noqa: PLC0415

    if settings.record is None:
        raise AssertionError("called without --record")

    async def recorded(folder: Path) -> str:
        recording = asyncio.ensure_future(record(probes(settings), identity_of(settings, None)))
        with on_signals(lambda _: recording.cancel(), *ENDING):  # once it is recorded, it is saved
            bundle = await recording
            if settings.record_anonymous:
                bundle = anonymised(bundle, user_names())
            return save(bundle, folder)

    try:
        claim_folder(settings.record)
        summary = run(recorded(settings.record))
    except OSError as error:
        sys.stderr.write(f"error: the bundle cannot be written: {error}; give --record a folder\n")
        return 1
    except asyncio.CancelledError:
        sys.stderr.write("error: a signal came before the end; there is no bundle\n")
        return 1
    sys.stdout.write(summary + "\n")
    return 0


def warn(settings: WorkerSettings) -> None:
    """Log warnings about these settings."""
    if settings.enable_training:
        _log.warning("--enable-training does nothing: this worker never changes hardware state")
    host = settings.server_address.rpartition(":")[0]
    if settings.token_file is not None and not settings.server_tls and not is_loopback(host):
        _log.warning(
            "the token crosses the network in clear text",
            to=settings.server_url,
            fix="add --server-tls, and to the master --tls-cert and --tls-key",
        )


if __name__ == "__main__":
    sys.exit(main())
