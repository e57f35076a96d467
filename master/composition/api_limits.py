"""The limits of the API port."""

from master.metrics import ServiceMetrics
from master.service import ApiLimits
from master.streams import Streams
from topo.kit.executors import SharedExecutor, SingleThreadExecutor
from topo.kit.serving.body_reader import BodyLimits, BodyReader
from topo.kit.serving.connections import Connections

MAX_BODY_BYTES = 64 * 1024
"""A job with its filters, or the groups of an answer for a thousand nodes."""
INLINE_BODY_BYTES = 16 << 10
BODIES_WAITING = 64
"""Bodies beyond `INLINE_BODY_BYTES` that may wait to be read, one at a time."""
BODIES = BodyLimits(
    max_bytes=MAX_BODY_BYTES,
    values=MAX_BODY_BYTES,
    objects=MAX_BODY_BYTES,
    members=MAX_BODY_BYTES,
    inline_bytes=INLINE_BODY_BYTES,
    inline_opened=64,
    waiting=BODIES_WAITING,
)
"""64 KiB have no more values than a parser takes in some milliseconds."""
PARTS = 64
"""Callers that may wait for a part of the topology; one takes up to 0.1 s at 10,000 nodes."""
CONNECTIONS = 2048
"""Connections of the API port; beyond it the one that was idle longest is closed. Pollers,
schedulers and streams of a cluster are some hundreds."""
UNREAD_BYTES = 64 * 1024 * 1024
"""Bytes of answers that wait for their readers; beyond it the slowest are cut. `/v1/topology` of
10,000 nodes has 11 MB."""
STREAMS = 256
"""Event streams at once; each event is encoded once for all of them."""
GRAPHS = 8
"""Callers that may wait for a graph of the fabric; one takes about a second at 10,000 nodes."""


def api_limits(metrics: ServiceMetrics) -> ApiLimits:
    """Return the limits, each with its threads or slots."""
    return ApiLimits(
        connections=Connections("api", CONNECTIONS, UNREAD_BYTES),
        bodies=BodyReader(BODIES),
        streams=Streams(STREAMS, metrics.event_streams),
        parts=SingleThreadExecutor(PARTS),
        graphs=SharedExecutor(GRAPHS),
    )
