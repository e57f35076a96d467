"""A cluster manager's answers, understood."""
