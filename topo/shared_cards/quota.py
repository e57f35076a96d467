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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from topo.model.errors import Refusal

A_CARD = 100
"""What a whole card counts: `HundredCore`."""
EXCEEDS = "ExceedsGPUQuota"
"""The reason that gpu-admission gives for a node."""
MOST_NAMESPACES, MOST_WORDS = 10_000, 256
_CARDS, _POOLS = "quota", "pool"
_SHOWN, _SHOWN_CHARS = 5, 64
_FIX = '{"<namespace>": {"quota": {"<model>": <cards>}, "pool": ["<pool>"]}}'


@dataclass(frozen=True, slots=True)
class NamespaceQuota:
    """Cards by model, and the pools that may be used; no pool: all."""

    cards: Mapping[str, int] = field(default_factory=dict)
    pools: tuple[str, ...] = ()


Quotas = Mapping[str, NamespaceQuota]
Place = tuple[str, str]
"""The model of a node's cards, and its pool; an empty one for none."""


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
        return _bad(f"{_shown(stated)} is not an object", namespace)
    found = {key.lower(): value for key, value in stated.items()}  # as Go reads keys
    if unknown := found.keys() - {_CARDS, _POOLS}:
        what = f"this key is neither {_CARDS} nor {_POOLS}"
        return _bad(what, f"{namespace}.{min(unknown)}")
    cards, pools = found.get(_CARDS) or {}, found.get(_POOLS) or []
    if not isinstance(cards, dict) or len(cards) > MOST_WORDS:
        what = f"{_shown(cards)} is not an object of at most {MOST_WORDS} models"
        return _bad(what, f"{namespace}.{_CARDS}")
    for model, number in cards.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            what = f"{_shown(number)} is not a whole number of cards"
            return _bad(what, f"{namespace}.{_CARDS}.{model}")
    is_list = isinstance(pools, list) and len(pools) <= MOST_WORDS
    if not is_list or not all(isinstance(each, str) for each in pools):
        what = f"{_shown(pools)} is not a list of at most {MOST_WORDS} names"
        return _bad(what, f"{namespace}.{_POOLS}")
    return NamespaceQuota(cards, tuple(pools))


def _shown(value: Any) -> str:
    """Return the start of a value as it stands in the text; of a nested one only what it is."""
    if isinstance(value, dict | list):
        return "a list" if isinstance(value, list) else "an object"
    return json.dumps(value)[:_SHOWN_CHARS]


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


def why_not(quota: NamespaceQuota, used: Mapping[str, int], hundredths: int, place: Place) -> str:
    """Return why the namespace may not use a node of this model and pool, with the numbers.

    Nodes that it could never use have one text, so that a scheduler counts them together.
    """
    model, pool = place
    if model in quota.cards and (not quota.pools or pool in quota.pools):
        has, asks, most = used.get(model, 0) / A_CARD, hundredths / A_CARD, quota.cards[model]
        numbers = f"{has:g} of {most} cards of {model}, and the pod asks for {asks:g}"
        return f"{EXCEEDS}: its namespace has {numbers}"
    pools = f" in pool {_listed(quota.pools)}" if quota.pools else ""
    return f"{EXCEEDS}: its namespace may use cards of {_listed(quota.cards) or 'no model'}{pools}"


def _listed(words: Iterable[str]) -> str:
    found = sorted(words)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"{', '.join(found[:_SHOWN])}{more}"
