"""What callers of the API may take at once."""

from master.booking.executors import SingleThreadExecutor
from master.metrics import ServiceMetrics
from master.service import ApiLimits
from master.settings import MasterSettings
from master.streams import Streams
from topo.kit.serving.connections import Connections

PARTS = 64
"""Callers that may wait for a part of the topology; one takes up to 0.1 s at 10,000 nodes."""
GRAPHS = 8
"""Callers that may wait for a graph of the fabric; one takes about a second at 10,000 nodes."""


def api_limits(settings: MasterSettings, metrics: ServiceMetrics) -> ApiLimits:
    """The limits, each with its threads or places."""
    return ApiLimits(
        connections=Connections(
            "api",
            settings.connection_limit,
            settings.unread_limit,
            setting="--connection-limit",
        ),
        streams=Streams(settings.event_stream_limit, metrics.event_streams),
        parts=SingleThreadExecutor(PARTS),
        graphs=SingleThreadExecutor(GRAPHS),
    )
