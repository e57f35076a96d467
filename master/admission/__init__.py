"""The admission webhook: what it answers, on which port, and by which certificate."""

ADMISSION = "topo-master-admission"
"""The webhook's Service, its configuration and the Secret of its certificate, as the chart names
them."""
