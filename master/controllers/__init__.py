"""Controllers of the leader: each writes one kind of object as the forest demands."""
