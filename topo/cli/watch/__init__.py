"""`topo tree --watch`: the screen, its keys, and the output in a pipe."""
