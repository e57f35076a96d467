"""Quantities of Kubernetes as whole numbers: `8`, `1k`, `8e0`, `1500m` (which is 2).

The grammar, and that a part of a unit counts as a whole one, are those of `ParseQuantity` and
`Quantity.Value` (k8s.io/apimachinery, pkg/api/resource/quantity.go).
"""

import re
from functools import lru_cache

MOST = 1_000_000
"""More devices than any node has; what states more counts as so many."""
MAX_CHARS = 80
"""A longer text is no quantity: the parts of one have 32, 32 and 4 digits at most. It is not looked
at and not kept, since texts of others may have megabytes."""
_QUANTITY = re.compile(
    r"\+?(?P<whole>[0-9]{0,32})(?:\.(?P<part>[0-9]{0,32}))?"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,3}))?",
    re.ASCII,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def devices(text: str) -> int:
    """Return the number of devices; `MOST` for a text that is none, since it might be all."""
    number = whole(text)
    return MOST if number is None else number


def whole(text: str) -> int | None:
    """Parse a quantity, rounded up, at most `MOST`; return None for a text that is none.

    Negative ones are none. O(1); most objects state the same few.
    """
    return _whole(text) if len(text) <= MAX_CHARS else None


@lru_cache(maxsize=1024)
def _whole(text: str) -> int | None:
    found = _scaled(text, 0)
    return None if found is None else min(found, MOST)


def thousandths(text: str) -> int | None:
    """Parse a quantity in thousandths of its unit, rounded up: 500m of a CPU, bytes times 1000.

    None for a text that is none. At most 2^63 units, as the API server keeps of a built-in kind;
    templates in custom resources may have `1e999`. O(1).
    """
    return _thousandths(text) if len(text) <= MAX_CHARS else None


@lru_cache(maxsize=4096)
def _thousandths(text: str) -> int | None:
    number = _scaled(text, 3)
    return None if number is None else min(number, 1000 << 63)


def _scaled(text: str, more: int) -> int | None:
    """Return the quantity times ten to the power of `more`, rounded up."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    digits = found["whole"] + (found["part"] or "")
    if not digits:
        return None
    suffix, exponent = found["suffix"] or "", found["exponent"] or "0"
    tens = int(exponent) + _DECIMAL.get(suffix, 0) - len(found["part"] or "") + more
    number: int = int(digits) << _BINARY.get(suffix, 0)
    scale: int = 10 ** abs(tens)
    return number * scale if tens >= 0 else -(-number // scale)
