"""Answers to the questions of schedulers. They change no booking: anybody may ask."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import repeat

from master.extender.cards import asked_card, card_refusal
from master.extender.metrics import ExtenderMetrics
from master.extender.plans import ExtenderPlans, NoPlan, PodPlan
from master.extender.quota import GpuQuota
from master.extender.wire import Asked
from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.store import Store
from topo.gangs.extender.verdicts import (
    NodeVerdict,
    of_impossible,
    of_others,
    of_planned,
    of_refused,
    planned_scores,
)
from topo.placement.job.policy import Policy
from topo.shared_cards.cards import CardsSnapshot
from topo.shared_cards.scores import NodeScores

LOOKS, LOOK_S = 50, 0.02
"""How often a pod is looked for that is not known yet, or has no plan yet: the scheduler may see it
before this master does. A scheduler gives up after 5 s by default."""
UNKNOWN = "topo-master does not know the pod yet; it is asked again"
NO_PLAN = "topo-master has no plan for the group of the pod yet; it is asked again"
UNREAD = "topo-master has not read the quota of GPUs yet; it is asked again"
PASSED, PLANNED, REFUSED, AWAITED = "passed", "planned", "refused", "awaited"
FORWARDED = "forwarded"
DENIED = "denied"


class Extender:
    """Reads plans, quotas and pods, and puts answers together."""

    def __init__(
        self,
        pods: Store[ClusterPod],
        plans: ExtenderPlans,
        quota: GpuQuota,
        *,
        policy: Policy,
        metrics: ExtenderMetrics,
        shared_cards: Callable[[], CardsSnapshot],
        unavailable: Callable[[], tuple[str, ...]],
    ) -> None:
        self._pods, self.plans, self.quota = pods, plans, quota
        self._cards = frozenset((*policy.gpu_resources, *policy.shared_resources))
        self.metrics = metrics
        self._domain, self._shared_cards = policy.domain, shared_cards
        self._node_scores = NodeScores()
        self._unavailable = unavailable

    def concerns_cards(self, asked: Asked) -> bool:
        """Return whether the pod asks for cards, so that bookings or quotas concern it."""
        return asked.names_any(self._cards)

    async def filtered(self, asked: Asked) -> NodeVerdict:
        """Return the nodes that the plan of the pod's group, or what is held, leaves it."""
        if not self.concerns_cards(asked):
            return self._counted("filter", PASSED, NodeVerdict(asked.names))
        if (refused := self._never(asked)) is not None:
            return self._counted("filter", REFUSED, refused)
        for look in range(LOOKS):
            verdict = self._filtered(asked)
            if verdict is not None:
                return verdict
            if look < LOOKS - 1:
                await asyncio.sleep(LOOK_S)
        known = self._known(asked) is not None
        missing = "; ".join(self._unavailable())
        error = missing or (NO_PLAN if known else UNKNOWN)
        return self._counted("filter", AWAITED, NodeVerdict(error=error))

    def _filtered(self, asked: Asked) -> NodeVerdict | None:
        """Return the verdict, None while it is not known."""
        pod = self._known(asked)
        if pod is None or self._unavailable():
            return None
        if not isinstance(pod, GangPod) or self.plans.is_free(pod):
            if not pod.gpus or _has_place(pod):
                return self._counted("filter", PASSED, NodeVerdict(asked.names))
            found = of_others(asked.names, self.plans.short_of(asked.names, pod.gpus))
            return self._counted("filter", PASSED if found.passed else REFUSED, found)
        plan = self.plans.find(pod)
        if isinstance(plan, PodPlan):
            return self._counted("filter", PLANNED, of_planned(asked.names, plan.kept))
        if isinstance(plan, NoPlan):
            return self._counted("filter", REFUSED, of_refused(asked.names, plan.why))
        return None

    def scores(self, asked: Asked) -> Sequence[int]:
        """Return the score of each named node, above 0 where it is kept for the pod's group or has
        a card for it.
        """
        pod = self._known(asked)
        plan = (
            self.plans.find(pod)
            if isinstance(pod, GangPod) and not self.plans.is_free(pod)
            else None
        )
        if not isinstance(plan, PodPlan):
            self.metrics.answers.labels("prioritize", PASSED).inc()
            request = asked_card(asked, self._domain) if pod is not None and pod.shared else None
            if request is None:
                return [0] * len(asked.names)
            return self._node_scores.scores(request, asked.names, self._shared_cards())
        self.metrics.answers.labels("prioritize", PLANNED).inc()
        scores = planned_scores(plan.kept, plan.own)
        return list(map(scores.get, asked.names, repeat(0)))

    async def within_quota(self, asked: Asked, *, is_one: bool) -> NodeVerdict:
        """Return the nodes that the quota of the pod's namespace leaves it, or the first."""
        if not self.concerns_cards(asked):
            free = NodeVerdict(asked.names)
            return self._counted("predicates", PASSED, free.first() if is_one else free)
        if (refused := self._never(asked)) is not None:
            return self._counted("predicates", REFUSED, refused)
        for look in range(LOOKS):
            pod = self._known(asked)
            if pod is not None and self.quota.is_read:
                found = self.quota.verdict(pod, asked.names, asked.labels, is_one=is_one)
                return self._counted("predicates", PASSED if found.passed else REFUSED, found)
            if look < LOOKS - 1:
                await asyncio.sleep(LOOK_S)
        error = UNREAD if self._known(asked) is not None else UNKNOWN
        return self._counted("predicates", AWAITED, NodeVerdict(error=error))

    def _never(self, asked: Asked) -> NodeVerdict | None:
        """Return that no node takes a pod whose amounts no card can give; None for another pod."""
        refusal = card_refusal(asked, self._domain)
        return None if refusal is None else of_impossible(asked.names, str(refusal))

    def _known(self, asked: Asked) -> ClusterPod | None:
        """Return the pod as the API server shows it; another one of its name is another pod."""
        pod = self._pods.objects.get(asked.key)
        return pod if pod is not None and pod.metadata.uid == asked.uid else None

    def _counted(self, verb: str, answered: str, verdict: NodeVerdict) -> NodeVerdict:
        self.metrics.answers.labels(verb, answered).inc()
        return verdict


def _has_place(pod: ClusterPod) -> bool:
    """Return whether bookings have the pod already: it counts against a hold, or is nominated."""
    return pod.booking is not None
