"""Several masters: the state that a follower gets from the leader, and calls that it forwards."""
