"""Publishes the status of gangs: Events on job and pods, a condition on the gang's first pod.

The condition begins while the gang waits. What it says is read from the pods, whichever leader
wrote it and whenever that came there, so that it follows the state to its end on every pod that has
it: once the gang waits no more, a pod that runs does not say that it does. It is compared when the
state is reported and when a pod changes, and written where it differs. Nothing is kept of what was
written: the queue of writes repeats none before the watch has shown its effect.

The text of a state has numbers that change with every look at the cluster, and an Event of
Kubernetes keeps its text for ever. So a job gets an Event when its state changes, and another one
of the same state with a new text after `SAME_STATE_S` at the earliest, with the last text.
"""

from collections.abc import Callable, Sequence

from master.controllers.nomination.gangs.ranks import first_of
from master.controllers.nomination.status.pod_events import PodEvents, about_pod
from master.kube.gang_pod import GangPod
from master.kube.objects import EVENTS, PODS
from master.kube.schema.timestamps import timestamp
from master.kube.writing.writer import Settled, Writer
from master.kube.writing.writes import MANAGER_PREFIX, Apply, Patch, WriteTarget
from topo.gangs.machine.gang import GangId
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import (
    BYPASSED_WEBHOOK,
    GROUPS_IGNORED,
    NOTE_IGNORED,
    UNGROUPED,
    GangState,
    PodCondition,
)
from topo.publish.event_series import EventSeries, Regarding, Reporter
from topo.publish.gang_events import gang_event
from topo.publish.node_events import EventContent

EVENTS_MANAGER = f"{MANAGER_PREFIX}gang-events"
CONDITION_MANAGER = f"{MANAGER_PREFIX}gang-conditions"
AT_ONCE = 20
MOST_UNWRITTEN = 100
MESSAGE_CHARS = 1000
SAME_STATE_S = 60.0


class StatusWriter:
    """Publishes at a rate that leaves the API server free for placements.

    `pods` returns the pods of a gang as they were read last, of a native one too.
    """

    def __init__(
        self,
        writer: Writer,
        reporter: Reporter,
        condition: str,
        pod_events: PodEvents,
        *,
        pods: Callable[[GangId], Sequence[GangPod]],
    ) -> None:
        self._writer, self._condition_type = writer, condition
        self._series, self._pod_events, self._pods = EventSeries(reporter), pod_events, pods
        self._unwritten: set[WriteTarget] = set()
        self._last: dict[tuple[GangId, str], tuple[EventContent, float]] = {}
        """The Events of the last minute by gang and reason, and when they were added."""
        self._later: dict[GangId, tuple[Regarding, EventContent]] = {}
        """New texts of the present state by gang, to be written once it is time."""
        writer.listen(EVENTS_MANAGER, self._settled)
        writer.listen(CONDITION_MANAGER, lambda _: None)

    def write(self, pod: GangPod, status: GangStatus, since_s: float, now_s: float) -> None:
        """Write the status of a gang; `pod` is the gang's first pod.

        `since_s` is when the gang entered its state; both times are Unix times.
        """
        row, gang_id = status.state.row, pod.gang_id
        if row.event:
            content = gang_event(row.event, status.message)
            self._add(gang_id, _about(pod), content, now_s)
            if row.pod_condition is PodCondition.WAITING:
                self._pod_events.note_waiting(gang_id, content, now_s)
        if row.pod_condition is not PodCondition.WAITING:
            self._pod_events.forget(gang_id)
        self.compare(gang_id, status, since_s)

    def compare(self, gang_id: GangId, status: GangStatus, since_s: float) -> None:
        """Write the condition of each pod that says something else than it is to say; O(pods).

        `status` is what was written last of the gang, `since_s` as of `write`.
        """
        pods = self._pods(gang_id)
        first, part = first_of(pods), status.state.row.pod_condition
        for each in pods:
            begins = part is PodCondition.WAITING and each is first
            if begins and (each.gated or each.other_gates):
                differs = _said(each) != _to_say(status)
            else:
                follows = part is PodCondition.ENDED or each.node is not None
                differs = follows and each.said not in {None, _to_say(status)[:2]}
            if differs:
                self._writer.put(self._condition(each, status, since_s))

    def forget(self, gang_id: GangId) -> None:
        """Drop a gang that was deleted with its pods."""
        self._later.pop(gang_id, None)
        self._pod_events.forget(gang_id)

    def write_bypassed(self, pod: GangPod, now_s: float) -> None:
        """Write that a pod was created without a gate, or its PodGroup without groups."""
        note = (
            "its pods ask for groups and were made without our admission webhook, so their"
            " scheduler may place them alone; see whether the webhook answers, and whether it"
            " covers this namespace (topo doctor), then delete the job and create it again, unless"
            " topo why says that it is placed or bound"
        )
        self._series.add(_about(pod), gang_event(BYPASSED_WEBHOOK.reason, note), now_s)

    def write_doubt(self, pod: GangPod, why: str, now_s: float) -> None:
        """Write to a pod alone that its note of a placement is not used, and why."""
        note = f"the placement that its annotation states is not used: {why}"
        self._series.add(about_pod(pod), gang_event(NOTE_IGNORED.reason, note), now_s)

    def write_ungrouped(self, pod: GangPod, why: str, now_s: float) -> None:
        """Write to the pod's job why the pod has no groups."""
        note = f"no groups are planned: {why}"
        self._series.add(_about(pod), gang_event(UNGROUPED.reason, note), now_s)

    def write_ignored(self, pod: GangPod, why: str, now_s: float) -> None:
        """Write to the pod's job that the scheduler ignores its groups."""
        note = f"its groups may be split: {why}; topo doctor has the patch"
        self._series.add(_about(pod), gang_event(GROUPS_IGNORED.reason, note), now_s)

    def flush(self, now_s: float) -> None:
        """Write the Events that are due."""
        self._last = {k: each for k, each in self._last.items() if now_s - each[1] < SAME_STATE_S}
        for gang_id, (about, content) in tuple(self._later.items()):
            self._add(gang_id, about, content, now_s)
        room = min(AT_ONCE, MOST_UNWRITTEN - len(self._unwritten))
        of_jobs = list(self._series.due(now_s, room))
        for told in (*of_jobs, *self._pod_events.due(now_s, room - len(of_jobs))):
            target = WriteTarget(EVENTS, told.name, told.namespace)
            self._unwritten.add(target)
            self._writer.put(
                Apply(target=target, manager=EVENTS_MANAGER, uid="", fields=told.fields)
            )

    def _add(self, gang_id: GangId, about: Regarding, content: EventContent, now_s: float) -> None:
        """Write an Event about a state, or keep a new text of the same state for later."""
        self._later.pop(gang_id, None)
        last, _ = self._last.setdefault((gang_id, content.reason), (content, now_s))
        if last == content:
            self._series.add(about, content, now_s)
        else:
            self._later[gang_id] = about, content

    def _settled(self, settled: Settled) -> None:
        self._unwritten.discard(settled.write.target)

    def _condition(self, pod: GangPod, status: GangStatus, since_s: float) -> Patch:
        is_true, reason, message = _to_say(status)
        condition = {
            "type": self._condition_type,
            "status": is_true,
            "reason": reason,
            "message": message,
            "lastTransitionTime": timestamp(since_s),
        }
        return Patch(
            target=WriteTarget(PODS, pod.metadata.name, pod.metadata.namespace),
            manager=CONDITION_MANAGER,
            uid=pod.metadata.uid,
            subresource="status",
            fields={"status": {"conditions": [condition]}},
        )


def _to_say(status: GangStatus) -> tuple[str, str, str]:
    """Return the status, the reason and the message of the condition of a gang."""
    state = status.state
    is_true = "True" if state is GangState.BOUND else "False"
    return is_true, state.row.reason, status.message[:MESSAGE_CHARS]


def _said(pod: GangPod) -> tuple[str, str, str] | None:
    """Return what the condition of a pod says; None without one."""
    if pod.said is None:
        return None
    return *pod.said, pod.reported.text if pod.reported is not None else ""


def _about(pod: GangPod) -> Regarding:
    """Return the job of the pod; the pod itself if it has no job."""
    owner, namespace = pod.owner, pod.metadata.namespace
    if owner is None:
        return about_pod(pod)
    return Regarding(owner.api_version, owner.kind, owner.name, owner.uid, namespace)
