"""Benchmarks of placement: time, quality of plans, and other schedulers on the same jobs."""
