"""What npu-smi would print on a simulated server of an Ascend super pod."""

from topo.model.errors import require
from topo.sim.worlds.presets import SimNode

_DIES = 2


def spod_info(node: SimNode) -> str:
    """Return `npu-smi info -t spod-info` of each die, one after the other, as our probe joins them.

    The form is that of a public output of an Atlas 900 A3; `topo.facts.ascend.spod_info` has the
    parts of an SDID.
    """
    pod = node.super_pod
    require(pod is not None, f"{node.name} is in no super pod")
    assert pod is not None  # noqa: S101 - for the types
    return "".join(
        f"\tSDID{'':27}: {_sdid(pod.server, die)}\n"
        f"\tSuper Pod Size{'':17}: {pod.size}\n"
        f"\tSuper Pod ID{'':19}: {pod.number}\n"
        f"\tServer Index{'':19}: {pod.server}\n"
        for die in range(node.hardware.gpus)
    )


def _sdid(server: int, device: int) -> int:
    chip, die = divmod(device, _DIES)
    return server << 22 | chip << 18 | die << 16 | device
