"""The shell around placement: threads, metrics, logs and disk around holds and plans."""
