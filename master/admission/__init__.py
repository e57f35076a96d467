"""The admission webhook: its rules, its port and its certificate."""

ADMISSION = "topo-master-admission"
"""The webhook's Service, its configuration and the Secret of its certificate, as the chart names
them."""
