"""The words: why this placement, why none, and what would let the job in."""
