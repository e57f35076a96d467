"""Names of groups for systems that have no paths and their own rules for what a name may be.

Result: a name for each group, valid there, and no name twice.

How: a group keeps its own name where that is valid and no other group has it. Every other group
gets what is left of its name, and eight hex digits of a SHA-256 over its whole path.

Why that is right: equal names under two parents are two groups, and who merges by name (Kueue by
label value, Volcano by object name) would see one. The digits depend on the path alone, so all
masters give the same names, and a group's name changes only when its path does or when another
group takes or gives up the same name.

Cost: O(groups).

Example: box-1/fly-1, box-2/fly-1 and box-2/Fly 2 as label values are fly-1-<digits of the first>,
fly-1-<digits of the second> and Fly-2-<digits>; with another name in place of the second fly-1, the
first is fly-1.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from hashlib import sha256

from topo.model.ids import GroupPath

_DIGITS = 8
LIMIT_CHARS = 63
_DNS_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_NAME = re.compile(rf"{_DNS_PART}(\.{_DNS_PART})*", re.ASCII)
MAX_DNS_NAME_CHARS = 253


def is_dns_name(text: str) -> bool:
    """Return whether it is a DNS name as Kubernetes takes them: of nodes, and before the `/` of a
    label.

    Source: kubernetes.io, "Object Names and IDs", DNS subdomain names; as in Kubernetes's own
    check only the whole has a limit, not its parts.
    """
    return len(text) <= MAX_DNS_NAME_CHARS and _DNS_NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Syntax:
    """What a name may be. `other` matches what it may not have, `ends` what it may not end in."""

    valid: re.Pattern[str]
    other: re.Pattern[str]
    ends: str
    lower: bool = False

    def cleaned(self, name: str, limit_chars: int) -> str:
        """Return what is left of a name; it may be empty."""
        text = name.lower() if self.lower else name
        return self.other.sub("-", text)[:limit_chars].strip(self.ends)


LABEL_VALUE = Syntax(
    re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII),
    re.compile(r"[^-A-Za-z0-9_.]+", re.ASCII),
    "-_.",
)
"""kubernetes.io, "Labels and Selectors"; an empty value is valid there and says nothing."""
OBJECT_NAME = Syntax(
    re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII),
    re.compile(r"[^-a-z0-9]+", re.ASCII),
    "-",
    lower=True,
)
"""A DNS label of RFC 1123, which every kind of object takes as its name."""


def unique_names(
    groups: Iterable[GroupPath], syntax: Syntax, given: AbstractSet[str] = frozenset()
) -> Mapping[GroupPath, str]:
    """Return a valid name for each group, no name twice and none of those `given` to others.

    No path may come twice.
    """
    paths = sorted(groups)
    counts = Counter(path[-1] for path in paths)
    plain = {
        path: str(path[-1])
        for path in paths
        if counts[path[-1]] == 1 and path[-1] not in given and syntax.valid.fullmatch(path[-1])
    }
    names, taken = dict(plain), {*given, *plain.values()}
    for path in paths:
        if path not in plain:
            names[path] = _with_digits(path, syntax, taken)
            taken.add(names[path])
    return names


def _with_digits(path: GroupPath, syntax: Syntax, taken: set[str]) -> str:
    # The lengths keep apart the paths a/b and "a/b", which joined names would not.
    text = "".join(f"{len(name)}:{name}" for name in path)
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()
    number = _DIGITS
    while (name := _shown(path[-1], digest[:number], syntax)) in taken:
        number += 4
    return name


def _shown(name: str, digits: str, syntax: Syntax) -> str:
    return "-".join(filter(None, (syntax.cleaned(name, LIMIT_CHARS - 1 - len(digits)), digits)))
