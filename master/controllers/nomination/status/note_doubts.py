"""Tells of notes on pods that are not used, since no fact bears them out: on those pods alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prometheus_client import Counter

from master.controllers.nomination.status.status_writer import StatusWriter
from master.kube.gang_pod import GangPod
from topo.gangs.machine.claims import doubtful_notes
from topo.gangs.machine.gang import Gang, GangId, PodUid


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteDoubts:
    """Looks at each pod when it is first seen: later the machine itself writes and withdraws notes.

    `pods` returns the pods of a gang by uid; `ignored` counts the notes that are not used.
    """

    writer: StatusWriter
    pods: Callable[[GangId], Mapping[PodUid, GangPod]]
    ignored: Counter
    now: Callable[[], float]

    def look(self, gang: Gang, before: Gang | None) -> None:
        """Write an Event on each new pod whose note is not used; O(members)."""
        known = {member.uid for member in before.members} if before is not None else set()
        doubts = doubtful_notes(gang)
        new = doubts.keys() - known
        pods = self.pods(gang.id) if new else {}
        for uid in new & pods.keys():
            self.ignored.inc()
            self.writer.write_doubt(pods[uid], doubts[uid], self.now())
