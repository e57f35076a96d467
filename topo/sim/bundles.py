"""The recording of a simulated host: what its probes would print, as a bundle."""

from pathlib import Path

from topo.facts.ascend.spod_info import FORMAT as SPOD_INFO
from topo.recording.bundle import Bundle, RecordedProbe, write
from topo.sim.probe_outputs import ascend, metax, nvidia, sysfs
from topo.sim.worlds.presets import SimNode


def bundle_of(node: SimNode) -> Bundle:
    """What a worker on the simulated host would record: every probe that this maker's hosts have.

    The probes stand in the order of precedence: library, command line, exporter, sysfs.
    """
    if node.hardware.maker == "metax":
        texts = {
            "mxsml": metax.library(node),
            "mx-smi-list": metax.smi_list(node),
            "mx-smi-topo": metax.smi_topo(node),
            "mx-smi-table": metax.smi_table(node),
            "mx-exporter": metax.exporter(node),
        }
    elif node.hardware.maker == "ascend":
        texts = {SPOD_INFO: ascend.spod_info(node)}
    else:
        texts = {
            "nvml": nvidia.library(node),
            "nvidia-smi-fabric": nvidia.smi_fabric(node),
            "nvidia-smi-topo": nvidia.smi_topo(node),
            "nvlink-errors": nvidia.smi_nvlink_errors(node),
        }
    if node.hardware.maker != "ascend":  # of whose devices sysfs says nothing that we read
        texts["sysfs-infiniband"] = sysfs.infiniband(node)
        texts["sysfs-pci"] = sysfs.pci(node)
    probes = tuple(RecordedProbe(probe, probe, text=text) for probe, text in texts.items())
    return Bundle(node.identity, probes)


def write_bundle(directory: Path, node: SimNode) -> None:
    """Write the simulated host's bundle into the directory."""
    write(directory, bundle_of(node))
