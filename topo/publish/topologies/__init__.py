"""The tiers of the forest as the topologies of schedulers: a file for each format."""
