"""How pictures take up a width: hanging texts, trees, tables, matrices; nothing is cut."""
