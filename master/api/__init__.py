"""The HTTP API: a handler a call, the table of calls, the documents, OpenAPI."""
