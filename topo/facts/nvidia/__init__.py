"""NVIDIA: NVML and nvidia-smi."""

from functools import partial

from topo.facts.nvidia import (
    nvidia_smi_fabric,
    nvidia_smi_topo,
    nvidia_smi_xml,
    nvlink,
    nvlink_errors,
    nvlink_sections,
    nvml,
)
from topo.facts.reader import Mark, Reader, Vendor
from topo.facts.reading import library_json, log_marks

VENDOR = Vendor(
    readers=(
        library_json.reader(nvml.FORMAT, nvml.read),
        Reader(
            nvidia_smi_xml.FORMAT,
            Mark.FORMAT_NAME,
            nvidia_smi_xml.recognises,
            nvidia_smi_xml.read,
            command="nvidia-smi -q -x",
            gives=("gpus", "fabrics"),
            ending="xml",
            without_processes=partial(nvidia_smi_xml.PROCESSES.sub, r"<\1/>"),
            begins=log_marks.titles(nvidia_smi_xml.BEGINS),
        ),
        nvidia_smi_topo.reader(),
        Reader(
            nvlink.REMOTE,
            Mark.LINES,
            nvlink.recognises_remote,
            nvlink.read_remote,
            command="nvidia-smi nvlink -R",
            renumber=nvlink.renumber,
        ),
        Reader(
            nvlink.STATUS,
            Mark.LINES,
            nvlink.recognises_status,
            nvlink.read_status,
            command="nvidia-smi nvlink -s",
            begins=log_marks.repeats(nvlink_sections.GPU_LINE),  # as all options of nvlink, and -L
        ),
        Reader(
            nvlink_errors.FORMAT,
            Mark.LINES,
            nvlink_errors.recognises,
            nvlink_errors.read,
            command="nvidia-smi nvlink -e",
        ),
        Reader(
            nvidia_smi_fabric.FORMAT,
            Mark.LINES,
            nvidia_smi_fabric.recognises,
            nvidia_smi_fabric.read,
            command="nvidia-smi -q",
            begins=log_marks.titles(nvidia_smi_fabric.BEGINS),
        ),
    ),
    pci_id="0x10de",
)
