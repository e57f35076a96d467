"""Writes to the API server: their values, their queue, and the writer that sends them."""
