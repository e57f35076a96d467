"""What every reader needs: text, bounds, spellings, what tools say when they cannot answer."""
