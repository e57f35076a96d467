"""Several masters: what a follower gets from the leader, and what it passes on to it."""
