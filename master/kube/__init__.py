"""The API server: who speaks to it, and in which words."""
