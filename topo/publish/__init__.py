"""The forest in other people's words: documents that other software asks for."""
