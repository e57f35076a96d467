"""The impure corner that both services share: logs, settings, secrets, TLS, tasks, tokens."""
