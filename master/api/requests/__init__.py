"""What a request brings: its body, its parameters, the job in it."""
