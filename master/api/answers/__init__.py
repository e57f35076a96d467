"""Answers that several calls share: JSON, not modified, not found, a full queue."""
