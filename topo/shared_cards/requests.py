"""What a pod asks for of shared cards, or why no card can ever give it.

GPUManager takes less than a card (with memory), or whole cards in hundreds: 250 is refused, as are
parts of a card without memory, which it hands out to nobody.
Source: tkestack/gpu-manager README.md ("must be <100 or a multiple of 100"), and gpu-admission
pkg/util/util.go, `IsGPURequiredPod`. Volcano and MetaX share each of `number` cards alike; who
names no memory asks for all of a card's. Source: volcano v1.15 pkg/scheduler/api/devices/util.go,
`ExtractResourceRequest`; HAMi pkg/device/metax/sdevice.go, `GenerateResourceRequests`.
"""

from dataclasses import dataclass

from topo.model.errors import Refusal
from topo.shared_cards.cards import Amount
from topo.shared_cards.families import A_CARD, CARD_MEMORY_MIB, Family

MOST_CARDS = 128


@dataclass(frozen=True, slots=True)
class CardRequest:
    """`number` cards, `each` of each of them. `is_whole`: no other pod may have a part of them.

    A part without memory is one with all memory of a card.
    """

    family: str
    number: int
    each: Amount
    is_whole: bool = False


def card_request(family: Family, number: int, cores: int, memory: int) -> CardRequest | Refusal:
    """Return the request of a pod that asks for these amounts, or why it is refused.

    `number` counts cards; for a family whose amounts are joint it is not stated and ignored.
    """
    if cores < 0 or memory < 0:
        return Refusal("an amount is below 0", family.cores, "give whole numbers from 0")
    if family.is_joint:
        return _joint(family, cores, memory)
    if not 1 <= number <= MOST_CARDS:
        fix = f"give a whole number from 1 to {MOST_CARDS}"
        return Refusal(f"{family.number} is {number}", family.number, fix)
    if cores > A_CARD:
        fix = f"give percent of one card, at most {A_CARD}; more cards are {family.number}"
        return Refusal(f"{family.cores} is {cores}", family.cores, fix)
    # HAMi and Volcano: 100 percent is the card alone.
    return CardRequest(family.name, number, Amount(1, cores, memory), is_whole=cores == A_CARD)


def _joint(family: Family, cores: int, memory: int) -> CardRequest | Refusal:
    if cores <= 0:
        fix = f"give hundredths of a card: 1 to {A_CARD - 1}, or a multiple of {A_CARD}"
        return Refusal(f"{family.cores} is {cores}", family.cores, fix)
    if cores >= A_CARD and cores % A_CARD:
        below = cores - cores % A_CARD
        fix = f"give less than {A_CARD}, or a multiple of it, such as {below} or {below + A_CARD}"
        return Refusal(f"{family.cores} is {cores}", family.cores, fix)
    if cores < A_CARD and memory <= 0:
        what = f"{family.cores} is {cores}, a part of a card, and {family.memory} is not given"
        fix = f"give units of {CARD_MEMORY_MIB} MiB: 16 are 4 GiB"
        return Refusal(what, family.memory, fix)
    if cores > MOST_CARDS * A_CARD:
        fix = f"give at most {MOST_CARDS * A_CARD}"
        return Refusal(f"{family.cores} is {cores}", family.cores, fix)
    if cores < A_CARD:
        return CardRequest(family.name, 1, Amount(1, cores, memory))
    return CardRequest(family.name, cores // A_CARD, Amount(1, A_CARD, 0), is_whole=True)
