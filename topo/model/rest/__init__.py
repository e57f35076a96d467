"""Every JSON document of the HTTP API once: for the service, its OpenAPI, and its clients."""
