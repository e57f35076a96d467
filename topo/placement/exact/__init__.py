"""Dynamic programmes that find the best of all ways, as far as a budget of steps allows."""
