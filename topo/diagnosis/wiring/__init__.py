"""The plan of cables beside the cables that are seen: what differs, and what mends it."""
