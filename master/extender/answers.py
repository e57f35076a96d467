"""Answers to the questions of schedulers. They change no booking: anybody may ask."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import TypeVar

from master.extender.metrics import ExtenderMetrics
from master.extender.plans import MANY_NAMES, ExtenderPlans, NoPlan, PodPlan
from master.extender.quota import GpuQuota, QuotaTerms
from master.extender.wire import NodeQuestion, QuestionReader
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
from topo.kit.threads import uninterrupted
from topo.placement.job.policy import Policy
from topo.shared_cards.cards import CardsSnapshot
from topo.shared_cards.scores import NodeScores, scores_of

LOOKS, LOOK_S = 50, 0.02
"""How often a pod is looked for that is not known yet, or has no plan yet: the scheduler may see it
before this master does. A scheduler gives up after 5 s by default."""
UNKNOWN = "topo-master does not know the pod yet; it is asked again"
NO_PLAN = "topo-master has no plan for the group of the pod yet; it is asked again"
UNREAD = "topo-master has not read the quota of GPUs yet; it is asked again"
PASSED, PLANNED, REFUSED, AWAITED = "passed", "planned", "refused", "awaited"
FORWARDED = "forwarded"
DENIED = "denied"

T = TypeVar("T")


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
        cards = frozenset((*policy.gpu_resources, *policy.shared_resources))
        self.reader = QuestionReader(cards, policy.domain, quota.labels)
        self.metrics = metrics
        self._shared_cards = shared_cards
        self._many, self._quota_turn = asyncio.Lock(), asyncio.Lock()
        self._node_scores = NodeScores()
        self._unavailable = unavailable

    async def over_names(self, asked: NodeQuestion, call: Callable[[], T]) -> T:
        """Return the result of a call whose work grows with the names of a question.

        It runs in a thread where there are many, for one question at a time.
        """
        if len(asked.names) <= MANY_NAMES:
            return call()
        async with self._many:
            return await uninterrupted(asyncio.to_thread(call))

    async def filter_nodes(self, asked: NodeQuestion) -> NodeVerdict:
        """Return the nodes that the plan of the pod's group, or what is held, leaves it."""
        if not asked.wants_cards:
            return self._counted("filter", PASSED, NodeVerdict(asked.names))
        if (refused := self._never(asked)) is not None:
            return self._counted("filter", REFUSED, refused)
        names = asked.names
        for look in range(LOOKS):
            found = self._find(asked)
            if found is not None:
                answered, judge = found
                verdict = await self.over_names(asked, judge)
                is_refused = answered == PASSED and bool(names) and not verdict.passed
                return self._counted("filter", REFUSED if is_refused else answered, verdict)
            if look < LOOKS - 1:
                await asyncio.sleep(LOOK_S)
        known = self._find_pod(asked) is not None
        missing = "; ".join(self._unavailable())
        error = missing or (NO_PLAN if known else UNKNOWN)
        return self._counted("filter", AWAITED, NodeVerdict(error=error))

    def _find(self, asked: NodeQuestion) -> tuple[str, Callable[[], NodeVerdict]] | None:
        """Return the kind of the answer, and what judges the named nodes in any thread.

        None while it is not known.
        """
        pod, names = self._find_pod(asked), asked.names
        if pod is None or self._unavailable():
            return None
        if not isinstance(pod, GangPod) or self.plans.is_free(pod):
            if not pod.gpus or _has_place(pod):
                return PASSED, partial(NodeVerdict, names)
            return PASSED, partial(of_others, names, self.plans.short_of(names, pod.gpus))
        plan = self.plans.find(pod)
        if isinstance(plan, PodPlan):
            return PLANNED, partial(of_planned, names, plan.kept)
        if isinstance(plan, NoPlan):
            return REFUSED, partial(of_refused, names, plan.why)
        return None

    async def scores(self, asked: NodeQuestion) -> Sequence[int]:
        """Return the score of each named node, above 0 where it is kept for the pod's group or has
        a card for it.
        """
        pod, names = self._find_pod(asked), asked.names
        plan = (
            self.plans.find(pod)
            if isinstance(pod, GangPod) and not self.plans.is_free(pod)
            else None
        )
        if not isinstance(plan, PodPlan):
            self.metrics.answers.labels("prioritize", PASSED).inc()
            if asked.card is None or pod is None or not pod.shared:
                return [0] * len(names)
            orders = self._node_scores.orders(asked.card, self._shared_cards())
            if len(names) > MANY_NAMES:
                orders = dict(orders)  # the next question changes it
            return await self.over_names(asked, partial(scores_of, orders, names))
        self.metrics.answers.labels("prioritize", PLANNED).inc()
        score = planned_scores(plan.kept, plan.own).get
        return await self.over_names(asked, lambda: list(map(score, names, repeat(0))))

    async def within_quota(self, asked: NodeQuestion, *, is_one: bool) -> NodeVerdict:
        """Return the nodes that the quota of the pod's namespace leaves it, or the first."""
        if not asked.wants_cards:
            free = NodeVerdict(asked.names)
            return self._counted("predicates", PASSED, free.first() if is_one else free)
        if (refused := self._never(asked)) is not None:
            return self._counted("predicates", REFUSED, refused)
        for look in range(LOOKS):
            pod = self._find_pod(asked)
            if pod is not None and self.quota.is_read:
                async with self._quota_turn:  # the next pod counts what this one may get
                    judge = partial(self._judge_quota, asked, self.quota.terms(pod), is_one=is_one)
                    found, models = await self.over_names(asked, judge)
                    self.quota.note_passed(pod, models)
                return self._counted("predicates", PASSED if found.passed else REFUSED, found)
            if look < LOOKS - 1:
                await asyncio.sleep(LOOK_S)
        error = UNREAD if self._find_pod(asked) is not None else UNKNOWN
        return self._counted("predicates", AWAITED, NodeVerdict(error=error))

    def _judge_quota(
        self, asked: NodeQuestion, terms: QuotaTerms, *, is_one: bool
    ) -> tuple[NodeVerdict, frozenset[str]]:
        places = self.quota.places(asked.names, asked.places)
        return terms.verdict(asked.names, places, is_one=is_one)

    def _never(self, asked: NodeQuestion) -> NodeVerdict | None:
        """Return that no node takes a pod whose amounts no card can give; None for another pod."""
        refusal = asked.card_refusal
        return None if refusal is None else of_impossible(asked.names, str(refusal))

    def _find_pod(self, asked: NodeQuestion) -> ClusterPod | None:
        """Return the pod as the API server shows it; another one of its name is another pod."""
        pod = self._pods.objects.get(asked.key)
        return pod if pod is not None and pod.metadata.uid == asked.uid else None

    def _counted(self, verb: str, answered: str, verdict: NodeVerdict) -> NodeVerdict:
        self.metrics.answers.labels(verb, answered).inc()
        return verdict


def _has_place(pod: ClusterPod) -> bool:
    """Return whether bookings have the pod already: it counts against a hold, or is nominated."""
    return pod.booking is not None
