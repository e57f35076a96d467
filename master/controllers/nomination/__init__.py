"""Gangs are placed by nomination: what the cluster says of them in, what is to be written out."""
