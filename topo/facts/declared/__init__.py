"""Groups that people write down: YAML and JSON documents, `nodegroup.yaml`.

The reader is imported at the first text: it needs PyYAML, which a worker is installed without.
"""

import re

from topo.model.errors import Refusal
from topo.model.observation import ParsedProbe

_RECOGNISED = re.compile(
    r"^[ \t]*['\"]?groups?['\"]?[ \t]*:"
    r"|^[ \t]*(?:-[ \t]+)?kind:[ \t]*['\"]?(?:node|dragonfly|switchbox)\b"
    r"|\"kind\"\s{0,64}:\s{0,64}\"(?:node|dragonfly|switchbox|nvlink-domain)\"",
    re.MULTILINE | re.IGNORECASE,
)
_UNSUPPORTED = re.compile(r"^[ \t{]*\"?apiVersion\"?[ \t]*:", re.MULTILINE)


def recognises(text: str) -> bool:
    """Return whether `text` looks like the document, its key misspelt or not. O(len(text))."""
    if "kind" not in text and "roup" not in text and "ROUP" not in text:
        return False
    return _RECOGNISED.search(text) is not None and _UNSUPPORTED.search(text) is None


def read(text: str) -> ParsedProbe | Refusal:
    """Return what `nodegroup.read` makes of the text."""
    from topo.facts.declared import nodegroup  # noqa: PLC0415 - see above

    return nodegroup.read(text)
