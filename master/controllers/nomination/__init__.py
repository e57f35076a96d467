"""Placement of gangs by nomination: reads the cluster, decides, and writes the result."""
