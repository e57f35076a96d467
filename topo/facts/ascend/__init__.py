"""Ascend: the matrix of npu-smi."""

import re

from topo.facts.link_matrix import matrix
from topo.facts.reader import Mark, Vendor

_DEVICES = re.compile(r"^[ \t]*(?:NPU[0-9]|Phy-ID[0-9])", re.MULTILINE)

VENDOR = Vendor(
    readers=(matrix.reader("npu-smi-topo", "npu-smi info -t topo", Mark.NAMED_MATRIX, _DEVICES),),
    devices=("NPU", "Phy-ID"),
)
