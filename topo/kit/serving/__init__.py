"""The layer between a socket and a handler: connections, bounded bodies, error answers."""
