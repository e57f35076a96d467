"""Layouts for any width without cutting text: hanging texts, trees, tables, matrices."""
