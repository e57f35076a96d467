"""Shared immutable values, without behaviour of their own."""
