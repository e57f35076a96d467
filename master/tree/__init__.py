"""The shell around discovery: the loop that owns it, history, rendered documents."""
