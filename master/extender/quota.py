"""What namespaces have of each model of card, and the quotas that a ConfigMap gives them.

A pod that was let pass counts for some seconds before it is seen bound: of two pods that ask one
after the other for the last card the second is refused. Only pods that the API server shows waiting
count so, and a later question about the same pod replaces what it counted before.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, islice, repeat
from operator import not_

from master.kube.gang_pod import ClusterPod
from master.kube.objects import ConfigMapObject, Key, NodeObject
from master.kube.reflector import Listed, StoreEvent
from master.kube.store import Store
from master.settings.extender import QUOTA_KEY
from topo.gangs.extender.verdicts import NodeVerdict
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.shared_cards.quota import (
    A_CARD,
    NamespaceQuota,
    Place,
    Quotas,
    is_allowed,
    open_models,
    read_quotas,
    why_not,
)

NOWHERE: Place = "", ""
VCUDA_CORE = "tencent.com/vcuda-core"
PASSED_S = 5.0
"""How long a pod that passed counts before it is seen bound: a binding takes well below a second,
and one that failed must not keep the card for long."""
MOST_PASSED = 10_000


class NamespaceUsage:
    """Hundredths of cards that the pods of each namespace have, by node. Follows a reflector."""

    def __init__(self, pods: Store[ClusterPod]) -> None:
        self._pods = pods
        self._by_namespace: dict[str, Counter[NodeName]] = {}
        self._known: dict[Key, tuple[NodeName, int]] = {}
        pods.subscribe(self._told)

    def of(self, namespace: str) -> Mapping[NodeName, int]:
        """Return what the bound pods of a namespace have, by node."""
        return self._by_namespace.get(namespace, {})

    def _told(self, told: StoreEvent[ClusterPod]) -> None:
        if isinstance(told, Listed):
            self._by_namespace.clear()
            self._known.clear()
            for key, pod in told.objects.items():
                self._count(key, pod)
        else:
            self._count(told.key, self._pods.objects.get(told.key))

    def _count(self, key: Key, pod: ClusterPod | None) -> None:
        before = self._known.pop(key, None)
        if before is not None:
            self._add(key[0], *before, -1)
        if pod is not None and pod.node is not None and (taken := hundredths(pod)):
            self._known[key] = pod.node, taken
            self._add(key[0], pod.node, taken, 1)

    def _add(self, namespace: str, node: NodeName, taken: int, sign: int) -> None:
        counts = self._by_namespace.setdefault(namespace, Counter())
        counts[node] += sign * taken
        if not counts[node]:
            del counts[node]
        if not counts:
            del self._by_namespace[namespace]


def hundredths(pod: ClusterPod) -> int:
    """Return what a pod counts of cards; a finished one nothing."""
    if pod.finished:
        return 0
    return pod.gpus * A_CARD + dict(pod.shared).get(VCUDA_CORE, 0)


class NodePlaces:
    """The model and the pool of each node by its labels. Follows a reflector: a question names
    thousands of nodes.
    """

    def __init__(self, nodes: Store[NodeObject], labels: tuple[str, str]) -> None:
        self._nodes, self._labels = nodes, labels
        self.known: dict[str, Place] = {}
        nodes.subscribe(self._told)

    def of(self, labels: Mapping[str, str]) -> Place:
        """Return the place that these labels say."""
        model, pool = self._labels
        return labels.get(model, ""), labels.get(pool, "")

    def _told(self, told: StoreEvent[NodeObject]) -> None:
        if isinstance(told, Listed):
            found = told.objects.items()
            self.known = {name: self.of(node.metadata.labels) for (_, name), node in found}
        elif (node := self._nodes.objects.get(told.key)) is not None:
            self.known[told.key[1]] = self.of(node.metadata.labels)
        else:
            self.known.pop(told.key[1], None)


@dataclass(frozen=True, slots=True)
class QuotaTerms:
    """The quota of a namespace, None without one; what its pods have, and what one asks for."""

    quota: NamespaceQuota | None
    used: Mapping[str, int]
    asks: int

    def verdict(
        self, names: Sequence[str], places: Sequence[Place], *, is_one: bool
    ) -> tuple[NodeVerdict, frozenset[str]]:
        """Return which of these nodes, or which one, the quota leaves the pod; and their models.

        `places` are those of the nodes in their order. O(names); in any thread.
        """
        asked = frozenset(places)
        refused = self._refused(asked)
        verdict = NodeVerdict(names)
        if refused:
            reasons = list(map(refused.get, places))
            passed = tuple(compress(names, map(not_, reasons)))
            verdict = NodeVerdict(passed, _by_reason(names, reasons))
        if not is_one:
            return verdict, frozenset(model for model, _ in asked - refused.keys())
        first = verdict.first()
        of_first = (
            place for name, place in zip(names, places, strict=True) if name in first.passed
        )
        return first, frozenset(model for model, _ in islice(of_first, 1))

    def _refused(self, places: Collection[Place]) -> Mapping[Place, str]:
        """Return the places whose nodes the pod may not use, and why."""
        quota, used, asks = self.quota, self.used, self.asks
        if quota is None:
            return {}
        models = open_models(quota, used, asks)
        closed = (place for place in places if not is_allowed(quota, models, *place))
        return {place: why_not(quota, used, asks, place) for place in closed}


class GpuQuota:
    """The quotas that are in force. A broken ConfigMap changes nothing; a missing one sets none."""

    def __init__(
        self,
        *,
        config_map: Store[ConfigMapObject],
        pods: Store[ClusterPod],
        nodes: Store[NodeObject],
        labels: tuple[str, str],
        clock: Callable[[], float],
    ) -> None:
        self._config_map, self._pods, self._nodes = config_map, pods, nodes
        self.labels = labels
        """Those of a node that say its model of card and its pool."""
        self._places = NodePlaces(nodes, labels)
        self._clock = clock
        self._usage = NamespaceUsage(pods)
        self._quotas: Quotas = {}
        self._passed: dict[Key, tuple[float, str, int, frozenset[str]]] = {}
        self.doubt = ""
        """What is wrong with the ConfigMap; empty where it is in force."""
        config_map.subscribe(self._told)

    @property
    def is_read(self) -> bool:
        """Whether the ConfigMap, the nodes and the pods were listed once."""
        return self._config_map.synced and self._nodes.synced and self._pods.synced

    def _told(self, _told: object) -> None:
        found = next(iter(self._config_map.objects.values()), None)
        quotas: Quotas | Refusal = {}
        if found is not None and QUOTA_KEY not in found.data:
            quotas = Refusal("it has no such key", f"data.{QUOTA_KEY}", "write the quotas there")
        elif found is not None:
            quotas = read_quotas(found.data[QUOTA_KEY])
        if isinstance(quotas, Refusal):
            self.doubt = f"the ConfigMap of GPU quotas is not used: {quotas}"
        else:
            self._quotas, self.doubt = quotas, ""

    def places(self, names: Sequence[str], stated: Mapping[str, Place]) -> Sequence[Place]:
        """Return the place of each named node. O(names); in any thread.

        `stated` are of nodes that came whole; without any the known ones decide.
        """
        return list(map((stated or self._places.known).get, names, repeat(NOWHERE)))

    def terms(self, pod: ClusterPod) -> QuotaTerms:
        """Return by what the quota of a pod's namespace judges its nodes now.

        O(nodes that the namespace has pods on, and pods that passed lately).
        """
        key = pod.metadata.namespace, pod.metadata.name
        quota = self._quotas.get(key[0])
        return QuotaTerms(quota, self._used(key) if quota is not None else {}, hundredths(pod))

    def note_passed(self, pod: ClusterPod, models: frozenset[str]) -> None:
        """Count a waiting pod from now on, on the models that it may get."""
        key = pod.metadata.namespace, pod.metadata.name
        self._passed.pop(key, None)
        if pod.node is None and models and len(self._passed) < MOST_PASSED:
            until_s = self._clock() + PASSED_S
            self._passed[key] = until_s, pod.metadata.uid, hundredths(pod), models

    def _used(self, asking: Key) -> Mapping[str, int]:
        """Return what the namespace of a pod has by model, without that pod."""
        used: Counter[str] = Counter()
        for node, taken in self._usage.of(asking[0]).items():
            if (place := self._places.known.get(node)) is not None:
                used[place[0]] += taken
        now_s, pods = self._clock(), self._pods.objects
        for key, (until_s, uid, taken, models) in tuple(self._passed.items()):
            pod = pods.get(key)
            if until_s <= now_s or pod is None or pod.metadata.uid != uid or pod.node is not None:
                del self._passed[key]
            elif key != asking and key[0] == asking[0]:
                for model in models:
                    used[model] += taken
        return used


def _by_reason(names: Sequence[str], reasons: Sequence[str | None]) -> Mapping[str, Sequence[str]]:
    """Return the names that have a reason, by their reason; O(names)."""
    found: dict[str, list[str]] = {}
    for name, why in zip(names, reasons, strict=True):
        if why is not None:
            found.setdefault(why, []).append(name)
    return found
