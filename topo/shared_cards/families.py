"""The ways in which device plugins share cards, and the units of each.

    family         a pod asks for                            cores           memory
    volcano-vgpu   volcano.sh/vgpu-{number,cores,memory}     percent         MiB
    metax-sgpu     <domain>/{sgpu,vcore,vmemory}             percent         MiB
    gpu-manager    tencent.com/vcuda-{core,memory}           hundredths      256 MiB

The first two ask for amounts of each of several cards, GPUManager for those of all cards together.

Sources: volcano v1.15 docs/user-guide/how_to_use_volcano_vgpu.md and
pkg/scheduler/api/devices/nvidia/vgpu; HAMi pkg/device/metax/sdevice.go (a bare `vmemory` is GiB);
tkestack/gpu-manager README.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

A_CARD = 100
"""Cores of a whole card, in percent or hundredths."""
CARD_MEMORY_MIB = 256
"""MiB of a unit of `tencent.com/vcuda-memory`."""
VOLCANO, METAX, GPU_MANAGER = "volcano-vgpu", "metax-sgpu", "gpu-manager"
FAMILIES = (VOLCANO, METAX, GPU_MANAGER)


@dataclass(frozen=True, slots=True)
class Family:
    """One family: its resources, and the unit of its memory in MiB.

    `number` is the resource in which whole devices or cores are asked for, which makes a pod one of
    the family. Who names no cores asks for `cores_by_default`. `is_joint`: amounts are of all cards
    of a pod together, not of each.
    """

    name: str
    number: str
    cores: str
    memory: str
    memory_mib: int = 1
    is_joint: bool = False
    cores_by_default: int = 0

    @property
    def resources(self) -> tuple[str, ...]:
        """Its resources, the one that makes a pod one of the family first."""
        return tuple(dict.fromkeys((self.number, self.cores, self.memory)))


@cache
def families(domain: str) -> tuple[Family, ...]:
    """Return the families; MetaX's resources are under the vendor's domain."""
    core = "tencent.com/vcuda-core"
    return (
        Family(
            VOLCANO, "volcano.sh/vgpu-number", "volcano.sh/vgpu-cores", "volcano.sh/vgpu-memory"
        ),
        Family(
            METAX,
            f"{domain}/sgpu",
            f"{domain}/vcore",
            f"{domain}/vmemory",
            cores_by_default=A_CARD,
        ),
        Family(GPU_MANAGER, core, core, "tencent.com/vcuda-memory", CARD_MEMORY_MIB, is_joint=True),
    )


def renamed_family(
    amounts: Mapping[str, int], gpu_resources: Iterable[str], domain: str
) -> Family | None:
    """Return the family whose devices a node publishes as whole GPUs; None on any other node.

    Volcano's plugin may give the number of its devices another name, such as `nvidia.com/gpu`,
    which then counts ten or more for each card; cores and memory keep theirs.
    Source: volcano-vgpu-device-plugin, flag `--resource-name`.
    """
    if not any(amounts.get(name) for name in gpu_resources):
        return None
    for family in families(domain):
        parts = {family.cores, family.memory} - {family.number}
        if not amounts.get(family.number) and any(amounts.get(name) for name in parts):
            return family
    return None


def by_name(domain: str) -> dict[str, Family]:
    """Return the families by their names."""
    return {family.name: family for family in families(domain)}
