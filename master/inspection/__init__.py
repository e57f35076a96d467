"""What is there of this product in a cluster, read with the rights of whoever asks."""
