"""What is wrong with a forest and its sources, and the next step: pure."""
