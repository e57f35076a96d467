"""The source of fabric dumps: files of a folder, and sweeps of named nodes."""
