"""Exact searches by dynamic programming, within a budget of steps."""
