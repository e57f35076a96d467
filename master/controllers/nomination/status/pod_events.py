"""Events on the gated pods of a gang that waits: `kubectl describe pod` shows why, for each rank.

One Event for each pod and state, with the text of the moment when it is written: the job's own
Events follow the text. A gang that waits for a moment only gets none, so that a job that is placed
at once costs no more writes. They are written after all Events on jobs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from master.kube.gang_pod import GangPod
from master.kube.objects import PODS
from topo.gangs.machine.gang import GangId
from topo.publish.event_series import EventRecord, EventSeries, Regarding, Reporter
from topo.publish.node_events import EventContent

AFTER_S = 5.0
"""Most gangs that wait at all are placed within this time."""


@dataclass(slots=True)
class _Waiting:
    content: EventContent
    since_s: float
    told: bool = False


class PodEvents:
    """The Events that are due. `gated_pods` returns the pods of a gang that have our gate."""

    def __init__(
        self, reporter: Reporter, gated_pods: Callable[[GangId], Sequence[GangPod]]
    ) -> None:
        self._series, self._gated_pods = EventSeries(reporter), gated_pods
        self._waiting: dict[GangId, _Waiting] = {}

    def note_waiting(self, gang_id: GangId, content: EventContent, now_s: float) -> None:
        """Note the state of a gang that waits, and its text. `now_s` is Unix time."""
        known = self._waiting.get(gang_id)
        if known is None or known.content.reason != content.reason:
            self._waiting[gang_id] = _Waiting(content, now_s)
        elif not known.told:
            known.content = content

    def forget(self, gang_id: GangId) -> None:
        """Drop a gang that waits no more."""
        self._waiting.pop(gang_id, None)

    def due(self, now_s: float, most: int) -> Iterator[EventRecord]:
        """Return the Events to write now, at most `most`; O(gangs that wait), O(pods) for new."""
        for gang_id, each in self._waiting.items():
            if each.told or now_s - each.since_s < AFTER_S:
                continue
            each.told = True
            for pod in self._gated_pods(gang_id):
                self._series.add(about_pod(pod), each.content, now_s)
        return self._series.due(now_s, most)


def about_pod(pod: GangPod) -> Regarding:
    """Return the pod as the object of an Event."""
    metadata = pod.metadata
    return Regarding(PODS.api_version, PODS.kind, metadata.name, metadata.uid, metadata.namespace)
