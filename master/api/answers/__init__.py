"""Answers that several calls share: JSON, not modified, refusals."""
