"""The quota of cards of a namespace, by model of card and pool of nodes, as GPUManager keeps it.

A namespace that has an entry gets nodes of its pools (of all without any), and of the models of
which it has not as many cards as its quota yet, the asking pod included. One without an entry gets
all. Whole GPUs of any resource count 100 each, `tencent.com/vcuda-core` as they are.

Source: tkestack/gpu-admission d571857, docs/gpu-quota.md and pkg/predicate/gpu_predicate.go
(`quotaFilter`, `filterGPUModel`, `filterNodes`).

Example: {"team": {"quota": {"M40": 2}, "pool": ["public"]}}, pods of `team` use 150 hundredths on
nodes of model M40. A pod that asks for 50 gets the M40 nodes of pool public; one that asks for 100
gets none: 250 are more than 200.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from topo.model.errors import Refusal

A_CARD = 100
"""What a whole card counts: `HundredCore`."""
EXCEEDS = "ExceedsGPUQuota"
"""The reason that gpu-admission gives for a node."""
MOST_NAMESPACES, MOST_WORDS = 10_000, 256
_FIX = '{"<namespace>": {"quota": {"<model>": <cards>}, "pool": ["<pool>"]}}'


@dataclass(frozen=True, slots=True)
class NamespaceQuota:
    """Cards by model, and the pools that may be used; no pool: all."""

    cards: Mapping[str, int] = field(default_factory=dict)
    pools: tuple[str, ...] = ()


Quotas = Mapping[str, NamespaceQuota]


def read_quotas(text: str) -> Quotas | Refusal:
    """Return the quotas of a ConfigMap, or what is wrong and where; O(text)."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _bad(f"it is no JSON: {error}", "gpu_quota")
    if not isinstance(document, dict) or len(document) > MOST_NAMESPACES:
        return _bad(f"it is not an object of at most {MOST_NAMESPACES} namespaces", "gpu_quota")
    found: dict[str, NamespaceQuota] = {}
    for namespace, stated in document.items():
        quota = _of_namespace(stated, namespace)
        if isinstance(quota, Refusal):
            return quota
        found[namespace] = quota
    return found


def _of_namespace(stated: Any, namespace: str) -> NamespaceQuota | Refusal:
    if not isinstance(stated, dict):
        return _bad("it is not an object", namespace)
    cards, pools = stated.get("quota") or {}, stated.get("pool") or []
    if not isinstance(cards, dict) or len(cards) > MOST_WORDS:
        return _bad(f"it is not an object of at most {MOST_WORDS} models", f"{namespace}.quota")
    for model, number in cards.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            return _bad("it is not a whole number of cards", f"{namespace}.quota.{model}")
    is_list = isinstance(pools, list) and len(pools) <= MOST_WORDS
    if not is_list or not all(isinstance(each, str) for each in pools):
        return _bad(f"it is no list of at most {MOST_WORDS} names", f"{namespace}.pool")
    return NamespaceQuota(cards, tuple(pools))


def _bad(what: str, where: str) -> Refusal:
    return Refusal(what, where, f"write {_FIX}")


def open_models(quota: NamespaceQuota, used: Mapping[str, int], hundredths: int) -> frozenset[str]:
    """Return the models of which the namespace may have that much more; O(models).

    `used` are the hundredths of cards that its pods have by model.
    """
    return frozenset(
        model
        for model, cards in quota.cards.items()
        if used.get(model, 0) + hundredths <= cards * A_CARD
    )


def is_allowed(quota: NamespaceQuota, models: frozenset[str], model: str, pool: str) -> bool:
    """Return whether the namespace may use a node of this model and pool."""
    return model in models and (not quota.pools or pool in quota.pools)
