"""Benchmarks: figures beside their budgets. They are looked at by people and fail nothing."""
