"""Whose token a caller shows: service accounts, and the reviews that the API server makes."""
