"""The plan of the cables, and its comparison with what a master sees."""
