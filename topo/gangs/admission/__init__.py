"""Admission of a job and its pods at creation: a JSON patch, warnings, or a refusal."""
