"""The source that polls a cluster manager."""
