"""Benchmarks of real services: reads, reports, memory, history, reviews and the page."""
