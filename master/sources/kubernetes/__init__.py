"""The cluster as a source: its nodes for discovery, its nodes and pods for what is free where.

Objects of `master.kube.objects` become values of `topo.model` and `topo.placement` in pure
functions (`nodes`, `pods`, `requests`, `quantity`, `device_config`); `node_source` and `capacity`
follow the reflectors and tell the owners what changed.
"""
