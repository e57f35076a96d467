"""The source that listens to the workers."""
