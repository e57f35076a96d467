"""Gangs: the pods of a job that start together, in groups that share a high-bandwidth domain."""
