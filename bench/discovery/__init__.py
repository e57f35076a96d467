"""Benchmarks of discovery: the core, the documents of the forest, the blocks of the loop."""
