"""LLDP: who is at the other ends of a host's cables."""
