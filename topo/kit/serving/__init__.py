"""What stands between a socket and a handler: connections, bodies within bounds, error answers."""
