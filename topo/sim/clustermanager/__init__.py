"""A cluster manager to try on: a real HTTPS server with faults on demand."""
