"""Benchmarks beside a Kubernetes API server: the list of nodes, writes, a takeover."""
