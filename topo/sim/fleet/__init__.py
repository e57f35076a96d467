"""The workers of a whole simulated world in one process."""
