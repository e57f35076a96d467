"""What every reader needs: text, bounds, spellings, the errors that tools print."""
