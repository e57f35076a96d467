"""Streams of jobs over a cluster, and what they are judged by."""
