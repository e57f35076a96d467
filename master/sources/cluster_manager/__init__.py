"""The source that asks a cluster manager."""
