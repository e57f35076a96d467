"""What must not leave the host in a support bundle: processes, and whatever looks like a secret."""

import re

from topo.facts.registry import READERS
from topo.kit.hiding import mask_secrets
from topo.model.errors import Refusal
from worker.host_facts import understand

_TAG = re.compile(r"(<[^<>]*>)")


def redacted(text: str, probe_format: str) -> str | None:
    """The text without processes and with its secrets masked; None where it must be withheld.

    It is withheld where masking changes what the text states: a recording must be true, and the
    unmasked text must not leave the host. A text that no reader understands is masked all the same.
    """
    reader = READERS.get(probe_format)
    bare = reader.without_processes(text) if reader else text
    tagged = reader is not None and reader.ending == "xml"
    # A mask must not eat into tags.
    parts = _TAG.split(bare) if tagged else [bare]
    masked = "".join(map(mask_secrets, parts))
    return masked if same_facts(bare, masked, probe_format) else None


def same_facts(before: str, after: str, probe_format: str) -> bool:
    """Whether a changed text still states what it did. A text that is refused states nothing."""
    if before == after:
        return True
    facts = understand(before, probe_format)
    return isinstance(facts, Refusal) or understand(after, probe_format) == facts
