"""Recordings of the probes of a host, and faults that bend their replay."""
