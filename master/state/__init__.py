"""The last good state: what it is as bytes, when it is saved, and where it is kept."""
