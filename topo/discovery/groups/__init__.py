"""Which nodes belong together, and what their groups are called."""
