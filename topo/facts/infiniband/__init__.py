"""The text of tools that look at a whole InfiniBand fabric."""
