"""Answers to schedulers that ask about each pod: HTTP extenders."""
