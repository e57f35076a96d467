"""The JSON documents of the HTTP API, for the service, its OpenAPI and its clients."""
