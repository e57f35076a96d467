"""The service: it gathers what the sources say, keeps the tree true and serves it."""
