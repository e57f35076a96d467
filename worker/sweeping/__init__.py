"""Sweeps of an InfiniBand fabric by the program of a host with rights."""
