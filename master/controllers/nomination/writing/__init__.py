"""Writes to pods and nodes for gangs: derived from instructions, tracked until observed."""
