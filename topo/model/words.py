"""The words of sentences for people: counted nouns, and lists that stay short."""

from collections.abc import Sequence

_ES_SUFFIXES = ("s", "x", "z", "ch", "sh")
_SHOWN = 4


def plural(noun: str) -> str:
    """Return `dragonflies`, `switchboxes`, `nvlink-domains`, `leaves`; O(1)."""
    if noun.endswith(_ES_SUFFIXES):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in set("aeiou"):
        return f"{noun[:-1]}ies"
    if noun.endswith("leaf"):
        return f"{noun[:-1]}ves"
    return f"{noun}s"


def counted(number: int, noun: str) -> str:
    """Return `1 dragonfly`, `2 dragonflies`; O(1)."""
    return f"{number} {noun if number == 1 else plural(noun)}"


def listed(names: Sequence[str], shown: int = _SHOWN) -> str:
    """Return `a, b and c`; of many the first ones and how many more there are."""
    if len(names) > shown:
        return f"{', '.join(names[:shown])} and {len(names) - shown} more"
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
