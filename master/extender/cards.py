"""What a pod asks for of shared cards, as a scheduler shows it."""

from collections.abc import Mapping, Sequence

from topo.model.errors import Refusal
from topo.model.quantity import thousandths, whole
from topo.shared_cards.families import METAX, Family, families
from topo.shared_cards.requests import CardRequest, card_request

GIB_MIB = 1024
"""MIB of the unit in which a bare `vmemory` is. Source: HAMi, `MemoryFactor`."""
_MIB = 1 << 20


Amounts = Mapping[str, object]
"""Amounts of a container by their resources, as its author wrote them: texts or numbers."""


def asked_card(limits: Sequence[Amounts], domain: str) -> CardRequest | None:
    """Return what the only container of a pod with shared cards asks for; None for another pod.

    `limits` are those of the pod's containers.
    """
    for family in families(domain):
        of_family = [each for each in limits if family.number in each]
        if len(of_family) == 1:
            request = _request(family, of_family[0])
            return None if isinstance(request, Refusal) else request
    return None


def card_refusal(limits: Sequence[Amounts], domain: str) -> Refusal | None:
    """Return why no card can ever give a container of the pod what it asks for; O(containers)."""
    for family in families(domain):
        for each in limits:
            if not _asks_for(each, family.number):
                continue
            request = _request(family, each)
            if isinstance(request, Refusal):
                return request
    return None


def _asks_for(limits: Amounts, resource: str) -> bool:
    """Return whether a container asks for anything but 0 of a resource."""
    return resource in limits and whole(_amount(limits[resource])) != 0


def _request(family: Family, limits: Amounts) -> CardRequest | Refusal:
    number, memory = (_amount(limits.get(name, "0")) for name in (family.number, family.memory))
    cores = _amount(limits.get(family.cores, family.cores_by_default))
    mib = _metax_mib(memory) if family.name == METAX else whole(memory) or 0
    return card_request(family, whole(number) or 0, whole(cores) or 0, mib)


def _amount(stated: object) -> str:
    """Return an amount as a text; empty for what is neither a text nor a number."""
    if isinstance(stated, str):
        return stated
    is_number = isinstance(stated, int | float) and not isinstance(stated, bool)
    return str(stated) if is_number else ""


def _metax_mib(text: str) -> int:
    """Return a `vmemory` in MiB, 0 for no quantity: a bare number is GiB, as HAMi reads it."""
    amount = (thousandths(text) or 0) // 1000
    is_bare = text.isascii() and text.isdigit()
    return amount * GIB_MIB if is_bare else amount // _MIB
