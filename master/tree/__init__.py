"""The shell around discovery: the loop that owns it, readiness, history, rendered documents."""
