"""JSON documents to rich renderables: pure functions, tested by their text at a fixed width."""
