"""What forests were: how one differs from the next, in few bytes, and a bounded row of moments."""
