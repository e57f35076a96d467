"""Benchmarks of jobs on real schedulers, from creation until all pods are bound."""
