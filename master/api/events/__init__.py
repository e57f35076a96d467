"""`GET /v1/topology/events`: the stream, and the events of the forest, of holds, of capacity."""
