"""Calls about cards that several pods share."""
