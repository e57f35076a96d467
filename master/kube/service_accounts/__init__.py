"""Verification of callers' tokens: service accounts, and the API server's token reviews."""
