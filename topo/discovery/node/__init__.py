"""One node: what is known of it, and whether it is healthy."""
