"""The I/O around discovery: the loop that owns it, history, rendered documents."""
