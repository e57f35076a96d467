"""Which claims of devices are claims of GPUs, and how many GPUs each has.

Devices of a class are GPUs if pods may name the class by a resource that counts as whole GPUs: its
`extendedResourceName`, as that of NVIDIA's driver is, or the one that every class has,
`deviceclass.resource.kubernetes.io/NAME`. Such a class gives nodes that resource, too
(`DeviceCounts.extended`), so what pods claim and what nodes have is one count.

Example: class gpu.nvidia.com with extendedResourceName nvidia.com/gpu, which the master counts as
GPUs. A template that asks for eight of it is 8 GPUs; one for all of a node is undecided.

Cost: O(requests of the template).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from master.kube.dra.counts import DeviceCounts, resources_of
from topo.gangs.admission.outcome import ClaimedGpus

_NOT_GPUS = ClaimedGpus(0)


@dataclass(frozen=True, slots=True)
class GpuClaims:
    """The GPUs of claims and their templates; `resources` count as whole GPUs."""

    devices: DeviceCounts
    resources: Collection[str]

    def of_template(self, namespace: str, name: str) -> ClaimedGpus | None:
        """Return the GPUs of a claim made of a template; None for a template not known."""
        found = self.devices.templates.objects.get((namespace, name))
        if found is None or not self.devices.is_known:
            return None
        for of_class, why in found.undecided:
            if self._is_of_gpus(of_class):
                return ClaimedGpus(0, f"{why} of class {of_class}")
        asked = [(of_class, count) for of_class, count in found.devices if count]
        uncounted = self._uncounted(of_class for of_class, _ in asked)
        gpus = sum(count for of_class, count in asked if self._is_of_gpus(of_class))
        return ClaimedGpus(gpus, uncounted)

    def of_claim(self, namespace: str, name: str) -> ClaimedGpus | None:
        """Return whether a claim that pods may share is of GPUs; None for one that is not known."""
        found = self.devices.claims.get((namespace, name))
        if found is None:
            return None
        of_gpus = [each for each in found.classes if self._is_of_gpus(each)]
        return ClaimedGpus(0, f"it is of class {of_gpus[0]}") if of_gpus else _NOT_GPUS

    def _is_of_gpus(self, name: str) -> bool:
        found = self.devices.classes.get(("", name))
        return found is not None and any(each in self.resources for each in resources_of(found))

    def _uncounted(self, classes: Iterable[str]) -> str:
        """Return which class of GPUs is not counted by node; empty for none."""
        for name in classes:
            found = self.devices.classes.get(("", name))
            if found is not None and self._is_of_gpus(name) and not self.devices.is_counted(found):
                return f"devices of class {name} are not counted"
        return ""
