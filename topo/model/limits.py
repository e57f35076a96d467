"""Bounds that requests, the core and the documents share."""

MAX_PODS = 1_000_000
"""Pods of one job."""
MAX_KEY_CHARS = 255
"""Characters of the key under which a hold is asked for again."""
MAX_TOKEN_CHARS = 8000
"""Characters of a bearer token. HTTP servers take 8 KiB for a field, its name and `Bearer ` too."""
