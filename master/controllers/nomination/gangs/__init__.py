"""Pods and what is known beside them → gangs, as the machine of `topo.gangs` takes them."""
