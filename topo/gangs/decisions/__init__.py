"""Decisions for the machine of gangs, computed on a capacity: placement, check, eviction."""
