"""Recordings of the probes of a host, and faults that change their replay."""
