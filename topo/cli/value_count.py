"""The bound on the values of a JSON text: a parser makes much memory of few bytes.

An answer of 60 MB of `{}` is 1.4 GB of dictionaries. The text is scanned before it is parsed.
"""

MAX_VALUES = 4_000_000
"""100,000 nodes have some 2.8 million. As many of the most expensive values take 400 MB."""


def has_too_many_values(text: bytes | bytearray) -> bool:
    """Return whether a JSON text may have more than `MAX_VALUES` values. O(bytes), no copies.

    Each value but the outermost follows a comma or opens its list or object. Commas and brackets in
    strings count too: a text with few values for its size never comes near the bound.
    """
    return sum(text.count(mark) for mark in (b",", b"[", b"{")) > MAX_VALUES
