"""The HTTP client of the master: connection, documents, events."""
