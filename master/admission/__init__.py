"""The admission webhook: what it answers, on which port, and by which certificate."""
