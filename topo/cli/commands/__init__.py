"""One file per command of `topo`."""
