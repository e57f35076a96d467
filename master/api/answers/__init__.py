"""Answers that several calls share: conditional, not found, busy."""
