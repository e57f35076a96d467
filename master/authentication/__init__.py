"""Tokens of the ports: read from files and followed; warnings where others can read them."""
