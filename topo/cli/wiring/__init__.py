"""`topo wiring`: files read, findings written."""
