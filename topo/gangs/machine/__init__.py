"""The state machine of gangs: events in, instructions out; pure and deterministic."""
