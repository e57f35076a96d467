"""Ascend: the matrix and the super pod of npu-smi, and the map of a super pod."""

import re

from topo.facts.ascend import spod_info, super_pod_device
from topo.facts.link_matrix import matrix
from topo.facts.reader import Mark, Reader, Vendor
from topo.facts.reading import log_marks

_DEVICES = re.compile(r"^[ \t]*(?:NPU[0-9]|Phy-ID[0-9])", re.MULTILINE)

VENDOR = Vendor(
    readers=(
        matrix.reader("npu-smi-topo", "npu-smi info -t topo", Mark.NAMED_MATRIX, _DEVICES),
        Reader(
            spod_info.FORMAT,
            Mark.TITLE,
            spod_info.recognises,
            spod_info.read,
            command=spod_info.COMMAND,
            gives=("gpus", "fabrics"),
            begins=log_marks.repeats(spod_info.BEGINS),
        ),
        Reader(
            super_pod_device.FORMAT,
            Mark.FORMAT_NAME,
            super_pod_device.recognises,
            super_pod_device.read,
            ending="json",
        ),
    ),
    devices=("NPU", "Phy-ID"),
)
