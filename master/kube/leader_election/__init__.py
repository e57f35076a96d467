"""Leader election among masters: the rules, and the Lease to which they are applied."""
