"""`topo demo`: a whole simulated cluster of real processes on this machine."""
