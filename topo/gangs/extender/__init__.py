"""Gangs whose pods have no gate: a scheduler asks where each of them may go."""
