"""The holds that pods name, each judged against the pod that names it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from master.booking.state import BookingState
from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.objects import Key
from master.kube.store import Grouped
from topo.gangs.hold_claims import Claimant, describe_claimants, may_take
from topo.placement.booking.events import PodSeen
from topo.placement.booking.holds import Hold, HoldId


class HoldClaims:
    """Judges which hold a pod counts against, and remembers which pods name which hold.

    A pod may be known before the hold that it names: a follower hears of holds from its leader. So
    a claim for a hold that is not there counts for nothing, and `naming` returns the pods to count
    anew when the hold comes. The result is the same in either order.
    """

    def __init__(self, state: BookingState) -> None:
        self._state = state
        self._pods: Grouped[HoldId, str] = Grouped()
        """The pods that take something and name a hold, by that; the value is their uid."""
        self._refused: dict[Key, tuple[HoldId, str]] = {}
        """The hold and the uid of each pod that names a hold of others."""

    def note(self, news: Mapping[Key, ClusterPod | None]) -> None:
        """Note which holds these pods name; None is a pod that is gone."""
        for key, found in news.items():
            seen = found.booking if found is not None else None
            if seen is not None and seen.pod.hold is not None:
                self._pods.put(key, seen.pod.hold, seen.pod.uid)
            else:
                self._pods.drop(key)
            if self._refused.get(key) != self._claim(key):
                self._refused.pop(key, None)

    def naming(self, holds: Iterable[HoldId]) -> list[Key]:
        """Return the pods that name one of these holds."""
        return [key for hold in holds for key in self._pods.values(hold)]

    def judge(self, found: ClusterPod, seen: PodSeen) -> PodSeen:
        """Return what a pod takes, without the hold that it names if it may take nothing of it."""
        pod = seen.pod
        hold = self._state.find_hold(pod.hold) if pod.hold is not None else None
        if isinstance(hold, Hold):
            rank = found.rank if isinstance(found, GangPod) else None
            claimant = Claimant(namespace=pod.namespace, gang=found.gang_id, rank=rank)
            if may_take(hold, claimant):
                return seen
            self._refuse((pod.namespace, pod.name), (hold.id, pod.uid))
        return replace(seen, pod=replace(pod, hold=None))

    @property
    def doubts(self) -> Iterator[str]:
        """A sentence for each pod that names a hold of others which is still there."""
        for (namespace, name), (hold_id, _) in sorted(self._refused.items()):
            if isinstance(hold := self._state.find_hold(hold_id), Hold):
                whose = describe_claimants(hold)
                yield (
                    f"pod {namespace}/{name} names hold {hold_id}, which is {whose}: "
                    "it takes no share of it"
                )

    def _refuse(self, key: Key, claim: tuple[HoldId, str]) -> None:
        if self._refused.get(key) != claim:
            self._refused[key] = claim
            self._state.metrics.claim_refused()

    def _claim(self, key: Key) -> tuple[HoldId, str] | None:
        hold = self._pods.group_of(key)
        return (hold, self._pods.values(hold)[key]) if hold is not None else None
