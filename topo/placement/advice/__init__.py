"""Explanations: why a placement, why a refusal, and which change would admit the job."""
