"""What device plugins and schedulers write of shared cards on nodes and pods, as cards and shares.

Each reader returns a refusal for a text that is not in its format: then nothing of it counts.

volcano-vgpu
    node `volcano.sh/node-vgpu-register`: `uuid,shares,MiB,model,healthy,mode:` for each card
    pod  `volcano.sh/vgpu-ids-new`: `uuid,NVIDIA,MiB,percent:` for each card, `;` between
         containers; with MIG the uuid is followed by `[group-place]`
metax-sgpu
    node `<domain>/node-gpu-devices`: a JSON list
    pod  `<domain>/gpu-devices-allocated`: a JSON list for each container
gpu-manager
    node allocatable `tencent.com/vcuda-core` and `-memory`: its cards are alike
    pod  `tencent.com/predicate-gpu-idx-<container>`: numbers of cards, `,` between

Sources: volcano v1.15 pkg/scheduler/api/devices/nvidia/vgpu/{utils,mig,type}.go; HAMi
pkg/device/metax/protocol.go; tkestack/gpu-admission pkg/util/util.go and pkg/device/nodeInfo.go.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from topo.model.errors import Refusal
from topo.shared_cards.cards import Amount, Card, CardShare
from topo.shared_cards.families import A_CARD, METAX, VOLCANO

VOLCANO_NODE, VOLCANO_POD = "volcano.sh/node-vgpu-register", "volcano.sh/vgpu-ids-new"
METAX_NODE, METAX_POD = "node-gpu-devices", "gpu-devices-allocated"
"""Both under the vendor's domain."""
GPU_MANAGER_POD = "tencent.com/predicate-gpu-idx-"
MOST_CARDS = 128
"""More cards than any node has; a text with more is refused."""
MOST_CHARS = 256 * 1024
"""What an object's annotations may have together. Source: k8s.io/apimachinery, validation."""
MOST = 1 << 40
_FIELDS = 6

T = TypeVar("T")


def volcano_cards(text: str) -> tuple[Card, ...] | Refusal:
    """Return the cards of `volcano.sh/node-vgpu-register`, in its order."""
    found: list[Card] = []
    for entry in _entries(text, ":"):
        items = entry.split(",")
        if len(items) < _FIELDS - 1:
            return _bad(VOLCANO_NODE, f"{entry[:64]!r} has {len(items)} fields, and {_FIELDS} are")
        shares, memory = _number(items[1]), _number(items[2])
        if shares is None or memory is None:
            return _bad(VOLCANO_NODE, f"{entry[:64]!r} has no whole numbers")
        mode = items[5] if len(items) >= _FIELDS else ""
        total = Amount(shares, A_CARD, memory)
        found.append(Card(items[0], total, items[4] in _TRUE, items[3], mode or "hami-core"))
    return _checked(VOLCANO_NODE, found)


_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
"""As Go's `strconv.ParseBool` reads it."""


def volcano_shares(text: str) -> tuple[CardShare, ...] | Refusal:
    """Return the shares of `volcano.sh/vgpu-ids-new`; an instance of MIG counts on its card."""
    found: list[CardShare] = []
    for container in _entries(text, ";"):
        for entry in _entries(container, ":"):
            items = entry.split(",")
            memory = _number(items[2]) if len(items) > 3 else None
            cores = _number(items[3]) if len(items) > 3 else None
            if memory is None or cores is None:
                return _bad(VOLCANO_POD, f"{entry[:64]!r} is not a card with its amounts")
            found.append(CardShare(items[0].partition("[")[0], Amount(1, cores, memory)))
    return _of_bounded(VOLCANO_POD, found)


def metax_cards(text: str) -> tuple[Card, ...] | Refusal:
    """Return the cards of `<domain>/node-gpu-devices`."""
    document = _json(text)
    if not isinstance(document, list) or not all(isinstance(each, dict) for each in document):
        return _bad(METAX_NODE, "it is no JSON list of cards")
    found: list[Card] = []
    for each in document:
        amounts = [_amount(each, key) for key in ("totalDevCount", "totalCompute", "totalVRam")]
        name = each.get("uuid")
        if None in amounts or not isinstance(name, str) or not name:
            return _bad(METAX_NODE, f"{str(each)[:64]} has no uuid with whole numbers")
        zone = _amount(each, "linkZone")
        total = Amount(*(number or 0 for number in amounts))
        model = each.get("model")
        is_healthy = each.get("healthy") is True
        shown = model if isinstance(model, str) else ""
        found.append(Card(name, total, is_healthy, shown, zone=zone or 0))
    return _checked(METAX_NODE, found)


def metax_shares(text: str) -> tuple[CardShare, ...] | Refusal:
    """Return the shares of `<domain>/gpu-devices-allocated`."""
    document = _json(text)
    if not isinstance(document, list):
        return _bad(METAX_POD, "it is no JSON list of containers")
    found: list[CardShare] = []
    for container in document:
        for each in container if isinstance(container, list) else ():
            name = each.get("uuid") if isinstance(each, dict) else None
            cores, memory = (
                (_amount(each, key) for key in ("compute", "vRam")) if name else (None, None)
            )
            if not isinstance(name, str) or cores is None or memory is None:
                return _bad(METAX_POD, f"{str(each)[:64]} is not a card with its amounts")
            found.append(CardShare(name, Amount(1, cores, memory)))
    return _of_bounded(METAX_POD, found)


def manager_cards(cores: int, memory: int) -> tuple[Card, ...]:
    """Return GPUManager's cards of a node: they are alike, and known by their numbers."""
    number = min(cores // A_CARD, MOST_CARDS)
    each = memory // number if number else 0
    return tuple(Card(str(at), Amount(0, A_CARD, each)) for at in range(number))


def manager_shares(
    containers: Sequence[tuple[int, int]], annotations: Mapping[str, str]
) -> tuple[CardShare, ...] | Refusal:
    """Return the shares of GPUManager's containers, each (cores, memory).

    Whole cards take all of their memory. A container without the annotation has cards that nobody
    names: its plugin chose them.
    """
    found: list[CardShare] = []
    for at, (cores, memory) in enumerate(containers):
        if cores <= 0:
            continue
        text = annotations.get(f"{GPU_MANAGER_POD}{at}")
        whole = cores // A_CARD
        each = Amount(0, A_CARD if whole else cores, 0 if whole else memory)
        number, is_whole = whole or 1, bool(whole)
        if text is None:
            found += [CardShare("", each, is_whole)] * min(number, MOST_CARDS)
            continue
        cards = text.split(",")
        if len(cards) != number or any(_number(card) is None for card in cards):
            return _bad(f"{GPU_MANAGER_POD}{at}", f"{text[:64]!r} does not name {number} cards")
        found += [CardShare(str(int(card)), each, is_whole) for card in cards]
    return _of_bounded(GPU_MANAGER_POD, found)


Cards = tuple[str, tuple[Card, ...]]
Shares = tuple[str, tuple[CardShare, ...]]
"""A family, and the cards of a node or the shares of a pod; the family is empty for none."""
NO_CARDS: Cards = "", ()
NO_SHARES: Shares = "", ()


def node_cards(annotations: Mapping[str, str], domain: str) -> Cards | Refusal:
    """Return the family and the cards that the annotations of a node state; no cards for none."""
    metax = f"{domain}/{METAX_NODE}", METAX, metax_cards
    return _first_stated(annotations, (metax, (VOLCANO_NODE, VOLCANO, volcano_cards)))


def pod_shares(annotations: Mapping[str, str], domain: str) -> Shares | Refusal:
    """Return the family and the shares that the annotations of a pod state; none for none."""
    metax = f"{domain}/{METAX_POD}", METAX, metax_shares
    return _first_stated(annotations, (metax, (VOLCANO_POD, VOLCANO, volcano_shares)))


def _first_stated(
    annotations: Mapping[str, str],
    readers: Iterable[tuple[str, str, Callable[[str], tuple[T, ...] | Refusal]]],
) -> tuple[str, tuple[T, ...]] | Refusal:
    """Read the first of these annotations that is there: (annotation, family, its reader)."""
    for key, family, read in readers:
        if text := annotations.get(key):
            found = read(text)
            return found if isinstance(found, Refusal) else (family, found)
    return "", ()


def _entries(text: str, mark: str) -> Iterable[str]:
    return (entry.strip() for entry in text[:MOST_CHARS].split(mark) if entry.strip())


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) < len(str(MOST))
    return int(text) if is_number else None


def _amount(document: Mapping[str, Any], key: str) -> int | None:
    """Return a whole number; 0 where it is left out, as Go leaves out zeros."""
    found = document.get(key, 0)
    is_number = isinstance(found, int) and not isinstance(found, bool) and 0 <= found < MOST
    return found if is_number else None


def _json(text: str) -> Any:
    try:
        return json.loads(text[:MOST_CHARS])
    except (ValueError, RecursionError):
        return None


def _checked(key: str, found: list[Card]) -> tuple[Card, ...] | Refusal:
    if len(found) > MOST_CARDS:
        return _bad(key, f"it has {len(found)} cards, and {MOST_CARDS} are the most")
    if len({card.id for card in found}) < len(found):
        return _bad(key, "it names a card twice")
    return tuple(found)


def _of_bounded(key: str, found: list[CardShare]) -> tuple[CardShare, ...] | Refusal:
    if len(found) > MOST_CARDS:
        return _bad(key, f"it has {len(found)} shares, and {MOST_CARDS} are the most")
    return tuple(found)


def _bad(key: str, what: str) -> Refusal:
    return Refusal(what, f"metadata.annotations[{key}]", "the device plugin's log says more")
