"""The domain: what supernode topology is, how it is found out, and how it is said."""
