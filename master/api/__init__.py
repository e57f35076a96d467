"""The HTTP API: a handler for each call, the table of calls, the documents, OpenAPI."""
