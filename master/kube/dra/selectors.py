"""Which devices a class chooses, as far as its expressions are read here.

A DeviceClass chooses devices by expressions of CEL. Those that classes of drivers are made of are
read: comparisons of the driver's name and of attributes with constants, joined by `&&`. Any other
expression is not read, and devices of its class are not counted.

Example: `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].type == "gpu"`.

Source: `CELDeviceSelector` in `k8s.io/api/resource/v1/types.go` of v0.37. A device that lacks an
attribute is an error there; no claim gets it. Cost: O(length of the expression).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

Fact = tuple[str, str]
"""An attribute of a device, `domain/name`, and its value as CEL writes it: `"a"`, `true`, `7`."""

_STRING = r"""(?:"[^"\\]*"|'[^'\\]*')"""
_DRIVER = re.compile(rf"device\.driver\s*==\s*(?P<value>{_STRING})")
_ATTRIBUTE = re.compile(
    rf"device\.attributes\[(?P<domain>{_STRING})\](?:\.(?P<name>\w+)|\[(?P<quoted>{_STRING})\])"
    rf"\s*==\s*(?P<value>{_STRING}|true|false|-?\d+)"
)
_OF_ONE_DEVICE = re.compile(
    r"uuid|guid|serial|bus_?id|^mac(_?addr(ess)?)?$|^ipv?[46]?$|^ip_?addr", re.IGNORECASE
)
"""Attributes that name one device alone; they are not kept, for they are all different."""


@dataclass(frozen=True, slots=True)
class DeviceSelection:
    """Devices of a driver (any where that is empty) with these attributes."""

    driver: str
    facts: frozenset[Fact]

    def has(self, driver: str, facts: frozenset[Fact]) -> bool:
        """Return whether a device is one of these."""
        return self.driver in {"", driver} and self.facts <= facts


def read_selection(expressions: Iterable[str]) -> DeviceSelection | None:
    """Return the devices for which all expressions hold; None where one is not read."""
    drivers: set[str] = set()
    facts: set[Fact] = set()
    for term in (term.strip() for each in expressions for term in each.split("&&")):
        if (found := _DRIVER.fullmatch(term)) is not None:
            drivers.add(found["value"][1:-1])
        elif (found := _ATTRIBUTE.fullmatch(term)) is not None:
            name = found["name"] or found["quoted"][1:-1]
            if _OF_ONE_DEVICE.search(name):
                return None
            value = found["value"]
            is_text = value[0] in "\"'"
            facts.add((f"{found['domain'][1:-1]}/{name}", _text(value[1:-1]) if is_text else value))
        else:
            return None
    if len(drivers) > 1:
        return None
    return DeviceSelection(next(iter(drivers), ""), frozenset(facts))


def fact(driver: str, name: str, value: str | int) -> Fact | None:
    """Return an attribute that a driver states; None for one that names one device alone.

    A name without a domain is of the driver's own. A truth value is an int, too.
    """
    if _OF_ONE_DEVICE.search(name.rpartition("/")[2]):
        return None
    if isinstance(value, bool):
        written = "true" if value else "false"
    else:
        written = _text(value) if isinstance(value, str) else str(value)
    return (name if "/" in name else f"{driver}/{name}", written)


def _text(value: str) -> str:
    return f'"{value}"'
