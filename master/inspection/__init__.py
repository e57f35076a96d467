"""The state of this product in a cluster, read with the rights of the user."""
