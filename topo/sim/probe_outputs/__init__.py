"""What the vendors' tools would print on a simulated host."""
