"""Reads the answers of a cluster manager."""
