"""Groups that people write down: YAML and JSON documents, `nodegroup.yaml`.

The reader is imported at the first text: it needs PyYAML, which a worker is installed without.
"""

import re

from topo.facts.reader import Mark, Reader
from topo.model.errors import Refusal
from topo.model.observation import ParsedProbe

_RECOGNISED = re.compile(
    r"^[ \t]*['\"]?groups?['\"]?[ \t]*:"
    r"|^[ \t]*(?:-[ \t]+)?kind:[ \t]*['\"]?(?:node|dragonfly|switchbox)\b"
    r"|\"kind\"\s{0,64}:\s{0,64}\"(?:node|dragonfly|switchbox|nvlink-domain)\"",
    re.MULTILINE | re.IGNORECASE,
)
_FOREIGN = re.compile(r"^[ \t{]*\"?apiVersion\"?[ \t]*:", re.MULTILINE)


def _recognises(text: str) -> bool:
    """Whether `text` looks like the document, its key misspelt or not. O(len(text))."""
    if "kind" not in text and "roup" not in text and "ROUP" not in text:
        return False
    return _RECOGNISED.search(text) is not None and _FOREIGN.search(text) is None


def _read(text: str) -> ParsedProbe | Refusal:
    from topo.facts.declared import nodegroup  # noqa: PLC0415 - see above

    return nodegroup.read(text)


READER: Reader = Reader(name="nodegroup", mark=Mark.DOCUMENT, recognises=_recognises, read=_read)
