"""What a pod asks for of shared cards, as a scheduler shows it."""

from collections.abc import Mapping

from master.extender.wire import Asked
from topo.gangs.json_patch import mapping
from topo.model.errors import Refusal
from topo.model.quantity import thousandths, whole
from topo.shared_cards.families import METAX, Family, families
from topo.shared_cards.requests import CardRequest, card_request

GIB_MIB = 1024
"""MIB of the unit in which a bare `vmemory` is. Source: HAMi, `MemoryFactor`."""
_MIB = 1 << 20


def asked_card(asked: Asked, domain: str) -> CardRequest | None:
    """Return what the only container of a pod with shared cards asks for; None for another pod."""
    for family in families(domain):
        of_family = _limits(asked, family)
        if len(of_family) == 1:
            request = _request(family, of_family[0])
            return None if isinstance(request, Refusal) else request
    return None


def card_refusal(asked: Asked, domain: str) -> Refusal | None:
    """Return why no card can ever give a container of the pod what it asks for; O(containers)."""
    for family in families(domain):
        for limits in _limits(asked, family):
            is_none = whole(str(limits[family.number])) == 0
            request = None if is_none else _request(family, limits)
            if isinstance(request, Refusal):
                return request
    return None


def _limits(asked: Asked, family: Family) -> list[Mapping[str, object]]:
    """Return the limits of the containers that ask for cards of a family."""
    found = mapping(asked.pod.get("spec")).get("containers")
    limits = (
        mapping(mapping(mapping(each).get("resources")).get("limits"))
        for each in (found if isinstance(found, list) else ())
    )
    return [each for each in limits if family.number in each]


def _request(family: Family, limits: Mapping[str, object]) -> CardRequest | Refusal:
    number, memory = (str(limits.get(name, "0")) for name in (family.number, family.memory))
    cores = str(limits.get(family.cores, family.cores_by_default))
    mib = _metax_mib(memory) if family.name == METAX else whole(memory) or 0
    return card_request(family, whole(number) or 0, whole(cores) or 0, mib)


def _metax_mib(text: str) -> int:
    """Return a `vmemory` in MiB, 0 for no quantity: a bare number is GiB, as HAMi reads it."""
    amount = (thousandths(text) or 0) // 1000
    is_bare = text.isascii() and text.isdigit()
    return amount * GIB_MIB if is_bare else amount // _MIB
