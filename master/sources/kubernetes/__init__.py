"""The cluster as a source: its nodes for discovery, its nodes and pods for free capacity.

Pure functions (`nodes`, `pods`, `device_config`) turn objects of `master.kube.objects` into values
of `topo.model` and `topo.placement`; `node_source` and `capacity` follow the reflectors and pass
changes to the owners.
"""
