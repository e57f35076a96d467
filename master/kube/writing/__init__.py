"""Writes to the API server: as values, in a queue, and the one writer that sends them."""
