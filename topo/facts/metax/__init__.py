"""MetaX: libmxsml, mx-smi (`ht-smi` on the boards of an OEM) and mx-exporter."""

import re
from functools import partial

from topo.facts.link_matrix import matrix
from topo.facts.metax import mx_exporter, mx_smi_list, mx_smi_table, mxsml
from topo.facts.reader import Mark, Reader, Trust, Vendor
from topo.facts.reading import library_json, log_marks

_TITLES = re.compile(
    r"(?:[Mm][Xx]|[Hh][Tt])-[Ss][Mm][Ii]|MetaX|MarsLink|Device link type matrix|Node Affinity"
    r"|\b(?:MX|HT)\b"
)
_TABLE = re.compile(r"^[ \t]*\|[ \t]*(?:MX|HT)-SMI[ \t]", re.MULTILINE)
_CARD = re.compile(r"^[ \t]*GPU#([0-9]{1,4})\b", re.MULTILINE)
_SAMPLE = re.compile(
    r"^((?:# (?:HELP|TYPE) )?mx_\w{1,80}(?:\{[^}\n]{0,500}\})?)", re.ASCII | re.MULTILINE
)

VENDOR = Vendor(
    readers=(
        library_json.reader(mxsml.FORMAT, mxsml.read),
        Reader(
            mx_smi_table.FORMAT,
            Mark.TITLE,
            mx_smi_table.recognises,
            mx_smi_table.read,
            command="mx-smi",
            gives=("gpus",),
            without_processes=partial(mx_smi_table.PROCESSES.sub, ""),
            begins=log_marks.titles(_TABLE),
        ),
        Reader(
            mx_smi_list.FORMAT,
            Mark.TITLE,
            mx_smi_list.recognises,
            mx_smi_list.read,
            command="mx-smi -L",
            gives=("gpus",),
            begins=log_marks.repeats(_CARD),
        ),
        Reader(
            mx_exporter.FORMAT,
            Mark.TITLE,
            mx_exporter.recognises,
            mx_exporter.read,
            trust=Trust.EXPORTER,
            gives=("peers", "ports"),
            ending="prom",
            begins=log_marks.repeats(_SAMPLE),
        ),
        matrix.reader("mx-smi-topo", "mx-smi topo -m", Mark.TITLED_MATRIX, _TITLES),
    ),
    pci_id="0x9999",
)
