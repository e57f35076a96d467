"""The `topo` command: a client of the API, the demo, the simulators."""
