"""Where a job goes: from the free slots to pods on nodes, by bounds and greedy rules."""
