"""Where gangs stand, told where people look: Events on the job, a condition on its first pod."""

from dataclasses import dataclass

from master.controllers.nomination.gang_builder import owner_of
from master.kube.objects import EVENTS, PODS, PodObject
from master.kube.writing.writer import Settled, Writer
from master.kube.writing.writes import MANAGER_PREFIX, Apply, Patch, WriteTarget
from topo.model.conditions.gang_states import (
    BYPASSED_WEBHOOK,
    GROUPS_IGNORED,
    UNGROUPED,
    GangState,
    PodCondition,
)
from topo.publish.event_series import EventSeries, Regarding, Reporter
from topo.publish.gang_events import GangOccurrence

EVENTS_MANAGER = f"{MANAGER_PREFIX}gang-events"
CONDITION_MANAGER = f"{MANAGER_PREFIX}gang-conditions"
AT_ONCE = 20
MOST_UNWRITTEN = 100
MESSAGE_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of a gang, `would_fit` being the smallest change that would let it in.

    `since_s` is when it came to stand there, on the controller's clock.
    """

    reason: GangState
    note: str
    since_s: float
    would_fit: str = ""

    @property
    def text(self) -> str:
        """All of it."""
        return f"{self.note}. {self.would_fit}" if self.would_fit else self.note


class Telling:
    """Writes what is told, at a rate that leaves room for placements."""

    def __init__(self, writer: Writer, reporter: Reporter, domain: str) -> None:
        self._writer, self._domain = writer, domain
        self._series = EventSeries(reporter)
        self._unwritten: set[WriteTarget] = set()
        self._waited: set[str] = set()
        """Jobs, by uid, whose condition says that they wait."""
        writer.listen(EVENTS_MANAGER, self._settled)
        writer.listen(CONDITION_MANAGER, lambda _: None)

    def tell(self, pod: PodObject, told: Told, now_s: float) -> None:
        """Tells it of the gang of which this is the first pod; `now_s` is Unix time."""
        row = told.reason.row
        if row.event:
            self._series.add(_about(pod), GangOccurrence(row.event, told.text), now_s)
        about = _about(pod).uid
        if row.pod_condition is PodCondition.WAITING and pod.spec.scheduling_gates:
            self._waited.add(about)
            self._writer.put(self._condition(pod, told))
        elif row.pod_condition is PodCondition.ENDED and about in self._waited:
            self._waited.discard(about)
            self._writer.put(self._condition(pod, told))

    def may_have_waited(self, gang_id: str) -> None:
        """The gang waits, and a leader before this one may have said so."""
        self._waited.add(gang_id)

    def forget(self, gang_id: str) -> None:
        """The gang is gone, and its pods with it."""
        self._waited.discard(gang_id)

    def passed_by(self, pod: PodObject, now_s: float) -> None:
        """Tells that a pod was made without a gate, or its PodGroup without groups."""
        note = (
            "its pods ask for groups and were made without our admission webhook, so their"
            " scheduler may place them alone; see whether the webhook answers, and whether it"
            " covers this namespace (topo doctor), then delete the job and create it again, unless"
            " topo why says that it is placed or bound"
        )
        self._series.add(_about(pod), GangOccurrence(BYPASSED_WEBHOOK.reason, note), now_s)

    def ungrouped(self, pod: PodObject, why: str, now_s: float) -> None:
        """Tells the job of the pod why it has no groups."""
        note = f"no groups are planned for the job: {why}"
        self._series.add(_about(pod), GangOccurrence(UNGROUPED.reason, note), now_s)

    def ignored(self, pod: PodObject, why: str, now_s: float) -> None:
        """Tells the job of the pod that its scheduler does not heed its groups."""
        note = f"its groups may be split: {why}; topo doctor has the patch"
        self._series.add(_about(pod), GangOccurrence(GROUPS_IGNORED.reason, note), now_s)

    def flush(self, now_s: float) -> None:
        """Writes the Events whose turn it is."""
        room = min(AT_ONCE, MOST_UNWRITTEN - len(self._unwritten))
        for told in self._series.due(now_s, room):
            target = WriteTarget(EVENTS, told.name, told.namespace)
            self._unwritten.add(target)
            self._writer.put(
                Apply(target=target, manager=EVENTS_MANAGER, uid="", fields=told.fields)
            )

    def _settled(self, settled: Settled) -> None:
        self._unwritten.discard(settled.write.target)

    def _condition(self, pod: PodObject, told: Told) -> Patch:
        condition = {
            "type": f"{self._domain}/Placed",
            "status": "True" if told.reason is GangState.BOUND else "False",
            "reason": told.reason.row.event,
            "message": told.text[:MESSAGE_CHARS],
        }
        return Patch(
            target=WriteTarget(PODS, pod.metadata.name, pod.metadata.namespace),
            manager=CONDITION_MANAGER,
            uid=pod.metadata.uid,
            subresource="status",
            fields={"status": {"conditions": [condition]}},
        )


def _about(pod: PodObject) -> Regarding:
    """The job; the pod itself where it has none."""
    owner, namespace = owner_of(pod), pod.metadata.namespace
    if owner is None:
        metadata = pod.metadata
        return Regarding(PODS.api_version, PODS.kind, metadata.name, metadata.uid, namespace)
    return Regarding(owner.api_version, owner.kind, owner.name, owner.uid, namespace)
