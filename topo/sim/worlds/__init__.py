"""Clusters that exist in machines, maps or generators."""
