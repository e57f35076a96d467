"""JSON text without what is nested too deep to be decoded.

The API server keeps whatever JSON a user puts into a free field, such as the opaque parameters of a
ResourceClaim (10 KiB, so thousands of levels). Decoders refuse a whole list for one such object:
jiter, which pydantic uses, at 200 levels, orjson at 1,024. No field that this master reads is so
deep, so what is cut is not missed.
Source: k8s.io/api/resource/v1, `OpaqueParametersMaxLength`; jiter 0.9, `DEFAULT_RECURSION_LIMIT`.
"""

import re

MAX_DEPTH = 100
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
"""A string, also one that does not end, or a bracket: each byte is looked at once."""


def cut_depth(text: bytes, max_depth: int = MAX_DEPTH) -> bytes:
    """Return the text with `null` in place of each array and object below `max_depth` levels.

    O(bytes): 0.3 s a MB of objects, 1 s of brackets, so for a thread. The text is the same where
    nothing is so deep, and whether it is valid JSON does not change.
    """
    pieces: list[bytes] = []
    depth = kept_to = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in b"[{":
            depth += 1
            if depth == max_depth + 1:
                pieces += text[kept_to : token.start()], b"null"
        elif first in b"]}":
            if depth == max_depth + 1:
                kept_to = token.end()
            depth -= 1
    if not pieces:
        return text
    return b"".join((*pieces, text[kept_to:] if depth <= max_depth else b""))
