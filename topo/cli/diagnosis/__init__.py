"""What is wrong with a cluster, and the next step."""
