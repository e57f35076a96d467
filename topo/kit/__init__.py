"""I/O that both services share: logs, settings, secrets, TLS, tasks, tokens."""
