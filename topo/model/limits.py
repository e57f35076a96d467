"""Bounds that requests, the core and the documents share."""

MAX_PODS = 1_000_000
"""Pods of one job."""
MAX_PODS_AHEAD = 10_000
"""Pods of one job for which places are kept before they are there: one pod says how many come."""
MAX_KEY_CHARS = 255
"""Characters of the key under which a hold is asked for again."""
GANG_KEYS, EXTENDER_KEYS = "gang/", "extender/"
REQUEST_KEYS, WORKLOAD_KEYS = "provisioning/", "workload/"
OWN_KEYS = (GANG_KEYS, EXTENDER_KEYS, REQUEST_KEYS, WORKLOAD_KEYS)
"""So begin the keys of holds that a master makes itself and ends by itself; no client's do."""
MAX_NAMESPACE_CHARS = 63
NAMESPACE = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""The name of a namespace of Kubernetes. Source: kubernetes.io, "Object Names and IDs", DNS label
names (RFC 1123)."""
MAX_TOKEN_CHARS = 8000
"""Characters of a bearer token. HTTP servers take 8 KiB for a field, its name and `Bearer ` too."""
