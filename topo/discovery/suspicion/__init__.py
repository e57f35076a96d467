"""Suspected links and nodes, by their behaviour over days."""
