"""The shell around discovery: the loop that owns it, its history, its rendered documents."""
