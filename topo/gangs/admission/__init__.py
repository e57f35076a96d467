"""What becomes of a job and its pods at their creation: a JSON patch, warnings, or a refusal."""
