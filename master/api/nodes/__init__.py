"""Calls about one node."""
