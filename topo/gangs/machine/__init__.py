"""The machine of gangs: events in, instructions out; pure, and the same for the same events."""
