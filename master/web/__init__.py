"""The page that people look at: its files, and the same forest as a plain list."""
