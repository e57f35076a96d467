"""The process of a service: its start, signals, memory, children."""
