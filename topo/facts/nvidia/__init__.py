"""NVIDIA: NVML and nvidia-smi."""

from topo.facts.link_matrix import matrix
from topo.facts.nvidia import nvidia_smi_fabric, nvidia_smi_xml, nvlink, nvml
from topo.facts.reader import Mark, Vendor

VENDOR = Vendor(
    readers=(
        nvml.READER,
        nvidia_smi_xml.READER,
        # nvidia-smi leaves no mark in its matrix: it is what no other vendor's mark claims.
        matrix.reader("nvidia-smi-topo", "nvidia-smi topo -m", Mark.PLAIN_MATRIX),
        nvlink.REMOTE_READER,
        nvlink.STATUS_READER,
        nvidia_smi_fabric.READER,
    ),
    pci_id="0x10de",
)
