"""A tree that stays on the terminal while it changes: its screen, its keys, its part in a pipe."""
