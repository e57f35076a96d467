"""What cannot be trusted, written where others read it: nodes and HyperNodes."""
