"""Suspected links and nodes, marked on nodes and HyperNodes for other programs."""
