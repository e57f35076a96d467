"""Findings about a forest and its sources, each with its next step; pure."""
