"""MetaX: libmxsml, mx-smi and mx-exporter."""

import re

from topo.facts.link_matrix import matrix
from topo.facts.metax import mx_exporter, mx_smi_list, mx_smi_table, mxsml
from topo.facts.reader import Mark, Vendor

_TITLES = re.compile(r"[Mm][Xx]-[Ss][Mm][Ii]|MetaX|Device link type matrix|Node Affinity|\bMX\b")

VENDOR = Vendor(
    readers=(
        mxsml.READER,
        mx_smi_table.READER,
        mx_smi_list.READER,
        mx_exporter.READER,
        matrix.reader("mx-smi-topo", "mx-smi topo -m", Mark.TITLED_MATRIX, _TITLES),
    ),
    pci_id="0x9999",
)
