"""Which links and nodes cannot be trusted, from what they did over days."""
