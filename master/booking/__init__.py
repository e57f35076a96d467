"""The I/O around placement: threads, metrics, logs and disk around holds and plans."""
