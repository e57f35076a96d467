"""What a request brings: who sends it, its body, its parameters."""
