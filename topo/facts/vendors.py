"""The vendors: every folder beside this file that has a `VENDOR`, in the order of their names."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import topo.facts as package
from topo.facts.reader import Vendor


def _vendors() -> Iterator[Vendor]:
    for folder in pkgutil.iter_modules(package.__path__):
        if folder.ispkg:
            module = importlib.import_module(f"{package.__name__}.{folder.name}")
            vendor = getattr(module, "VENDOR", None)
            if isinstance(vendor, Vendor):
                yield vendor


VENDORS = tuple(_vendors())
PCI_IDS = frozenset(vendor.pci_id for vendor in VENDORS if vendor.pci_id)
"""As sysfs writes them: `0x10de`."""
_DEVICE = re.compile(
    "(" + "|".join(sorted({word for v in VENDORS for word in v.devices})) + ")([0-9]{1,4})",
    re.ASCII,
)


def device(name: str) -> tuple[str, int] | None:
    """Return word and number of a device that a matrix names: `GPU`, 3; None for a NIC."""
    match = _DEVICE.fullmatch(name)
    return (match.group(1), int(match.group(2))) if match else None
