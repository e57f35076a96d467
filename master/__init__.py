"""The master: collects facts from its sources, keeps the tree current and serves it."""
