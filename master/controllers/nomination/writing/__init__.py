"""Writes for gangs to pods and nodes: made from instructions, awaited until they are seen."""
