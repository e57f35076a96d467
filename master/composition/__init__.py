"""A master put together from its settings, a file per part; nothing here does I/O."""
